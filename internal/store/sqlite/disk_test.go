package sqlite

import (
	"maps"
	"path/filepath"
	"slices"
)

// disk is what a folder's disk holds for sure, and what is on its way to it.
// A write counts once a sync of its file has ended that began after it; a name
// once a sync of its folder has.
type disk struct {
	folder string
	names  map[string]*inode // :: path → file, as the process sees it
	kept   map[string]*inode // :: path → file, as after power loss
	moves  []move            // of names, not yet synced
	open   map[int]*handle   // :: file descriptor → what it is open on
}

type inode struct {
	synced  []byte
	pending []change
}

// change is one write, or a truncation where data is nil.
type change struct {
	at   int64
	data []byte
}

// move gives a path to a file, or takes it away where the file is nil.
type move struct {
	path string
	file *inode
}

// handle is an open file, or the folder where file is nil.
type handle struct{ file *inode }

func newDisk(folder string) *disk {
	return &disk{folder: folder, names: map[string]*inode{}, kept: map[string]*inode{}, open: map[int]*handle{}}
}

func (d *disk) opened(path string, fd int) {
	delete(d.open, fd)
	if path == d.folder {
		d.open[fd] = &handle{}
	}
	if filepath.Dir(path) != d.folder {
		return
	}
	file := d.names[path]
	if file == nil {
		file = &inode{}
		d.names[path] = file
		d.moves = append(d.moves, move{path, file})
	}
	d.open[fd] = &handle{file}
}

func (d *disk) removed(path string) {
	if d.names[path] != nil {
		delete(d.names, path)
		d.moves = append(d.moves, move{path, nil})
	}
}

func (d *disk) wrote(fd int, c change) {
	if h := d.open[fd]; h != nil && h.file != nil {
		h.file.pending = append(h.file.pending, c)
	}
}

// syncing says that a sync of fd begins; the function that it returns is
// called when it has ended well.
func (d *disk) syncing(fd int) func() {
	h := d.open[fd]
	switch {
	case h == nil:
		return func() {}
	case h.file == nil:
		n := len(d.moves)
		return func() { d.keepNames(n) }
	}
	n := len(h.file.pending)
	return func() { h.file.keep(n) }
}

func (d *disk) keepNames(n int) {
	n = min(n, len(d.moves))
	for _, m := range d.moves[:n] {
		m.apply(d.kept)
	}
	d.moves = d.moves[n:]
}

func (m move) apply(names map[string]*inode) {
	if m.file == nil {
		delete(names, m.path)
		return
	}
	names[m.path] = m.file
}

// keep makes the first n pending changes durable. Another sync, which ended
// meanwhile, may have done so with some of them: then there are fewer to do.
func (f *inode) keep(n int) {
	n = min(n, len(f.pending))
	for _, c := range f.pending[:n] {
		f.synced = c.apply(f.synced)
	}
	f.pending = f.pending[n:]
}

func (c change) apply(b []byte) []byte {
	if c.data == nil {
		if int64(len(b)) > c.at {
			return b[:c.at]
		}
		return append(b, make([]byte, c.at-int64(len(b)))...)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[c.at:], c.data)
	return b
}

const sector = 512

// survivors returns the files after a power loss now, by their base names. Of
// each change that was not synced, survives is asked sector by sector.
func (d *disk) survivors(survives func(sector int) bool) map[string][]byte {
	names := maps.Clone(d.kept)
	for i, m := range d.moves {
		if survives(i) {
			m.apply(names)
		}
	}
	files := map[string][]byte{} // :: base name → content
	for path, f := range names {
		content := slices.Clone(f.synced)
		for _, c := range f.pending {
			for i, part := range c.sectors() {
				if survives(i) {
					content = part.apply(content)
				}
			}
		}
		files[filepath.Base(path)] = content
	}
	return files
}

// sectors splits a write at the borders of the disk's sectors.
func (c change) sectors() []change {
	if c.data == nil {
		return []change{c}
	}
	var parts []change
	for len(c.data) > 0 {
		n := min(len(c.data), sector-int(c.at%sector))
		parts = append(parts, change{at: c.at, data: c.data[:n]})
		c = change{at: c.at + int64(n), data: c.data[n:]}
	}
	return parts
}
