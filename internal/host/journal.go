package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// journal is one instance's output: a file that the instance appends to, and
// one older file. It is rotated by copying and truncating, since the instance
// holds the file open and must not notice.
type journal struct {
	path string
	max  int64

	mu  sync.Mutex
	gen int   // rotations so far
	cut int64 // bytes that the last rotation left out of the older file
}

// mark is a place in a journal. It is good for as long as the journal is.
type mark struct {
	gen int
	off int64
}

func (j *journal) older() string { return j.path + ".1" }

// open gives the file that the process is to hold.
func (j *journal) open() (*os.File, error) {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the instance's output: %w", err)
	}
	return f, nil
}

// rotate keeps the output bounded. What is printed between the end of the copy
// and the truncation is lost; what was copied is not. On a full disk what was
// printed is given up instead, since output that grows would take the last room
// from everything else; the error says so.
func (j *journal) rotate() error {
	st, err := os.Stat(j.path)
	if err != nil || st.Size() <= j.max {
		return ignoreMissing(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	cut := st.Size() - j.max
	if err := copyFrom(j.path, j.older()+".new", cut); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("older output was given up, for there is no room for it: %w", errors.Join(err, j.giveUp(st.Size())))
		}
		return fmt.Errorf("cannot rotate output: %w", err)
	}
	if err := os.Rename(j.older()+".new", j.older()); err != nil {
		return fmt.Errorf("cannot rotate output: %w", err)
	}
	if err := os.Truncate(j.path, 0); err != nil {
		return fmt.Errorf("cannot rotate output: %w", err)
	}
	j.gen++
	j.cut = cut
	return nil
}

// inherit makes the output of the process before in the same slot this one's
// older file, with a last line that says how it ended: who asks what a program
// said that fails again and again wants to read what it said at its end.
func (j *journal) inherit(before *journal, end string) error {
	before.mu.Lock()
	defer before.mu.Unlock()
	last, _, err := readEnd(before.path, 1)
	if err != nil {
		return fmt.Errorf("cannot keep earlier output: %w", err)
	}
	line := "[fairlead] the process before ended with: " + end + "\n"
	if len(last) > 0 && last[0] != '\n' {
		line = "\n" + line
	}
	f, err := before.open()
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot keep earlier output: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := os.Rename(before.path, j.older()); err != nil {
		return fmt.Errorf("cannot keep earlier output: %w", err)
	}
	return nil
}

// giveUp drops all output but what comes next. Who reads goes on with that.
func (j *journal) giveUp(size int64) error {
	err := errors.Join(ignoreMissing(os.Remove(j.older()+".new")), ignoreMissing(os.Remove(j.older())), os.Truncate(j.path, 0))
	j.gen++
	j.cut = size
	return err
}

func copyFrom(from, to string, off int64) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, serr := src.Seek(off, io.SeekStart)
	if serr == nil {
		_, serr = io.Copy(dst, src)
	}
	return errors.Join(serr, dst.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// read gives up to len(buf) bytes from a mark and the mark after them; none
// when there is nothing new. What a second rotation overtook is passed over.
func (j *journal) read(m mark, buf []byte) (int, mark, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if m.gen == j.gen-1 {
		n, err := readAt(j.older(), max(m.off-j.cut, 0), buf)
		if n > 0 || err != nil {
			return n, mark{m.gen, max(m.off, j.cut) + int64(n)}, err
		}
	}
	if m.gen != j.gen {
		m = mark{gen: j.gen}
	}
	n, err := readAt(j.path, m.off, buf)
	return n, mark{m.gen, m.off + int64(n)}, err
}

func readAt(path string, off int64, buf []byte) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	defer f.Close()
	n, err := f.ReadAt(buf, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// tailMost bounds what a tail reads.
const tailMost = 256 << 10

// tail gives the last n whole lines, without their ends, and the mark after
// them. A last line without an end is left for read.
func (j *journal) tail(n int) ([][]byte, mark, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now, size, err := readEnd(j.path, tailMost)
	if err != nil {
		return nil, mark{}, err
	}
	end := bytes.LastIndexByte(now, '\n') + 1
	m := mark{j.gen, size - int64(len(now)-end)}
	if bytes.Count(now, []byte{'\n'}) < n && size <= tailMost {
		before, _, err := readEnd(j.older(), tailMost)
		if err != nil {
			return nil, mark{}, err
		}
		now, end = append(before, now...), end+len(before)
	}
	lines := bytes.Split(bytes.TrimSuffix(now[:end], []byte{'\n'}), []byte{'\n'})
	if end == 0 || n <= 0 {
		return nil, m, nil
	}
	return lines[max(len(lines)-n, 0):], m, nil
}

// lastLines is tail for people: at most n lines of at most 400 bytes, the
// unfinished one included.
func (j *journal) lastLines(n int) []string {
	b, _, err := readEnd(j.path, 16<<10)
	if err != nil || len(b) == 0 {
		return nil
	}
	lines := bytes.Split(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\n'})
	var out []string
	for _, l := range lines[max(len(lines)-n, 0):] {
		out = append(out, string(bytes.ToValidUTF8(l[:min(len(l), 400)], []byte("?"))))
	}
	return out
}

func readEnd(path string, most int64) ([]byte, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, ignoreMissing(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	off := max(st.Size()-most, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, off, st.Size()-off))
	return b, off + int64(len(b)), err
}

func (j *journal) remove() error {
	return errors.Join(ignoreMissing(os.Remove(j.path)), ignoreMissing(os.Remove(j.older())))
}
