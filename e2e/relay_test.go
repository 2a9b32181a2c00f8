package e2e

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// relay passes connections on to another address, HOST:PORT or the path of a
// socket, and can make what comes from there late.
type relay struct {
	network string
	address string
	target  string

	mu    sync.Mutex
	late  time.Duration // each piece of what comes from the target, in turn
	held  chan struct{} // while it is open, nothing comes from the target
	conns []net.Conn
}

func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	network, at := "tcp", "127.0.0.1:0"
	if filepath.IsAbs(target) {
		folder, err := os.MkdirTemp("/tmp", "flr") // a socket's path ends at 107 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(folder) })
		network, at = "unix", filepath.Join(folder, filepath.Base(target))
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{network: network, address: l.Addr().String(), target: target}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepting.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.release()
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		accepting.Wait()
	})
	return r
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	target, err := net.Dial(r.network, r.target)
	if err != nil {
		return // as if it were refused
	}
	defer target.Close()
	r.mu.Lock()
	r.conns = append(r.conns, conn, target)
	r.mu.Unlock()
	var up sync.WaitGroup
	up.Go(func() {
		io.Copy(target, conn) // its error is the end of the connection
		target.Close()
	})
	r.back(conn, target)
	conn.Close()
	up.Wait()
}

// back passes on what comes from the target.
func (r *relay) back(conn, target net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := target.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		late, held := r.late, r.held
		r.mu.Unlock()
		time.Sleep(late)
		if held == nil { // it may have begun meanwhile
			r.mu.Lock()
			held = r.held
			r.mu.Unlock()
		}
		if held != nil {
			<-held
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// delay makes each piece that comes from the target late from now on.
func (r *relay) delay(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = by
}

// hold lets nothing come from the target until release.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(chan struct{})
	}
}

func (r *relay) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}
