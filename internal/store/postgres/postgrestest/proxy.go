package postgrestest

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// Cut says after how many more bytes a connection is cut; a negative number
// does not cut.
type Cut struct {
	FromClient int // bytes that still reach the server
	FromServer int // bytes that still reach the client
	// Refuse refuses new connections once it is cut, until Allow.
	Refuse bool
}

// Proxy stands between clients and a server, on a TCP port of loopback.
type Proxy struct {
	// URL of the server through the proxy.
	URL string

	socket   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]bool // :: link → is open
	armed   bool
	cut     Cut
	target  *link // whose client was the first to speak since Arm
	passed  Cut   // bytes that passed on it since
	refuses bool
}

type link struct{ client, server net.Conn }

func (l *link) close() {
	_ = l.client.Close() // to cut is the purpose: nobody is told how it went
	_ = l.server.Close()
}

// Proxy starts a proxy, which ends with the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		URL:    fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", l.Addr()),
		socket: filepath.Join(s.Folder, ".s.PGSQL.5432"), listener: l,
		links: map[*link]bool{},
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *Proxy) close() {
	_ = p.listener.Close() // accept ends by its error
	p.mu.Lock()
	p.refuses = true
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Arm cuts the connection whose client speaks next.
func (p *Proxy) Arm(c Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.cut, p.target, p.passed = true, c, nil, Cut{}
}

// Passed returns the bytes that passed since Arm on the connection that it is about.
func (p *Proxy) Passed() Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

// Sever cuts every connection.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Allow allows new connections again.
func (p *Proxy) Allow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses, p.armed = false, false
}

// Refuse refuses new connections.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if err := p.join(client); err != nil {
			_ = client.Close()
		}
	}
}

func (p *Proxy) join(client net.Conn) error {
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return err
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses {
		l.close()
		return errors.New("refused")
	}
	p.links[l] = true
	p.running.Go(func() { p.copy(l, l.client, l.server, true) })
	p.running.Go(func() { p.copy(l, l.server, l.client, false) })
	return nil
}

func (p *Proxy) copy(l *link, from, to net.Conn, fromClient bool) {
	defer func() {
		l.close()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		pass, cut := p.allowed(l, n, fromClient)
		if _, e := to.Write(b[:pass]); e != nil || err != nil || cut {
			return
		}
	}
}

// allowed says how many of n bytes pass, and whether the link is cut then.
func (p *Proxy) allowed(l *link, n int, fromClient bool) (pass int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed && p.target == nil && fromClient && n > 0 {
		p.target = l
	}
	if p.target != l || !p.armed {
		return n, false
	}
	limit, passed := p.cut.FromServer, &p.passed.FromServer
	if fromClient {
		limit, passed = p.cut.FromClient, &p.passed.FromClient
	}
	if cut = limit >= 0 && *passed+n >= limit; cut {
		n = limit - *passed
		p.refuses = p.refuses || p.cut.Refuse
		p.armed = false
	}
	*passed += n
	return n, cut
}
