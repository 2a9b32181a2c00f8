package sqlite

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// replay reads a record of strace -f -xx and plays it on a disk of the folder.
// said is called for each line that the recorded process began to print.
func replay(trace, folder string, said func(*disk, string)) error {
	f, err := os.Open(trace)
	if err != nil {
		return err
	}
	p := &player{disk: newDisk(folder), said: said, unfinished: map[string]*call{}}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return f.Close()
		}
		if err != nil {
			return err
		}
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("%w in the record's line %.200s", err, line)
		}
	}
}

// call is one system call, from its beginning on.
type call struct {
	name  string
	args  []string
	ended func() // for a sync: what its good end does
}

type player struct {
	disk       *disk
	said       func(*disk, string)
	unfinished map[string]*call // :: thread → its call that has begun
}

// line plays "PID name(args) = result", or one half of it.
func (p *player) line(line string) error {
	thread, rest, ok := strings.Cut(line, " ")
	if !ok {
		return errors.New("no call")
	}
	rest = strings.TrimLeft(rest, " ")
	if strings.HasPrefix(rest, "+++") {
		return nil // the end of a thread
	}
	if strings.HasPrefix(rest, "<... ") {
		c := p.unfinished[thread]
		if c == nil {
			return errors.New("an end without a beginning")
		}
		delete(p.unfinished, thread)
		return p.end(c, rest)
	}
	name, args, ok := strings.Cut(rest, "(")
	if !ok {
		return errors.New("no arguments")
	}
	c := &call{name: name}
	if begun, ok := strings.CutSuffix(args, "<unfinished ...>"); ok {
		c.args = splitArgs(begun)
		p.unfinished[thread] = c
		return p.begin(c)
	}
	c.args = splitArgs(args[:max(0, strings.LastIndex(args, ")"))])
	if err := p.begin(c); err != nil {
		return err
	}
	return p.end(c, rest)
}

// splitArgs needs no care for quotes: all strings are in hexadecimal.
func splitArgs(s string) []string {
	args := strings.Split(strings.TrimSpace(s), ",")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	return args
}

func unquote(s string) ([]byte, error) {
	if strings.HasSuffix(s, "...") {
		return nil, errors.New("a string that was cut short")
	}
	return hex.DecodeString(strings.ReplaceAll(strings.Trim(s, `"`), `\x`, ""))
}

// begin does what counts from the beginning of a call: a descriptor is free,
// a line may be seen, a sync covers what was written before.
func (p *player) begin(c *call) error {
	fd, _ := strconv.Atoi(c.args[0]) // not a number for calls that take none
	switch c.name {
	case "close":
		delete(p.disk.open, fd)
	case "write":
		if fd != 1 {
			return nil
		}
		b, err := unquote(c.args[1])
		p.said(p.disk, string(b))
		return err
	case "fsync", "fdatasync":
		c.ended = p.disk.syncing(fd)
	}
	return nil
}

// end does what counts once a call has ended well.
func (p *player) end(c *call, line string) error {
	_, after, ok := cutLast(line, " = ")
	if !ok {
		return errors.New("no result")
	}
	result, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		return nil // "?": the process ended meanwhile
	}
	if result < 0 {
		return nil
	}
	return p.done(c, result)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (p *player) done(c *call, result int) error {
	fd, _ := strconv.Atoi(c.args[0])
	switch c.name {
	case "open", "openat":
		path, err := unquote(c.args[map[string]int{"open": 0, "openat": 1}[c.name]])
		p.disk.opened(string(path), result)
		return err
	case "unlink", "unlinkat":
		path, err := unquote(c.args[map[string]int{"unlink": 0, "unlinkat": 1}[c.name]])
		p.disk.removed(string(path))
		return err
	case "fsync", "fdatasync":
		c.ended()
	case "ftruncate":
		size, err := strconv.ParseInt(c.args[1], 10, 64)
		p.disk.wrote(fd, change{at: size})
		return err
	case "pwrite64":
		data, err := unquote(c.args[1])
		if err != nil {
			return err
		}
		at, err := strconv.ParseInt(c.args[3], 10, 64)
		p.disk.wrote(fd, change{at: at, data: data[:result]})
		return err
	case "write":
		if fd != 1 && p.disk.open[fd] != nil {
			return errors.New("a write without a place, which is not understood")
		}
	case "rename", "renameat", "renameat2":
		return errors.New("a renaming, which is not understood")
	}
	return nil
}
