package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// plain is a backend of little cost: it answers every request of a connection
// with the same bytes, so that what is measured is what stands before it.
func plain(c net.Conn) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 13\r\n\r\nhello, world\n")
	br := bufio.NewReader(c)
	for {
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// load sends b.N requests over so many connections, as cheaply as it can.
func load(b *testing.B, addr, host string, conns int) {
	b.Helper()
	ask := []byte("GET /hello HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range conns {
		n := b.N / conns
		if i < b.N%conns {
			n++
		}
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			br := bufio.NewReader(c)
			for range n {
				if _, err := c.Write(ask); err != nil {
					b.Error(err)
					return
				}
				resp, err := readFast(br)
				if err != nil || resp != 200 {
					b.Errorf("answered %d, %v", resp, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// readFast reads an answer of 13 bytes.
func readFast(br *bufio.Reader) (status int, err error) {
	for i := 0; ; i++ {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if i == 0 {
			fmt.Sscanf(string(line[9:12]), "%d", &status)
		}
		if len(line) <= 2 {
			_, err = br.Discard(13)
			return status, err
		}
	}
}

var benchConns = []int{1, 32, 256}

func BenchmarkGateway(b *testing.B) {
	for _, n := range benchConns {
		b.Run(fmt.Sprintf("conns=%d", n), func(b *testing.B) {
			r := newRig(b)
			h := r.host("h1")
			h.offer(instance{ID: "hello-a", Service: "hello", Revision: "hello-00001", Address: r.raw(plain)}, 300)
			r.tables.publish(1, route("hello", 1))
			h.synced()
			b.ReportAllocs()
			load(b, r.g.PublicAddr().String(), "hello.localhost", n)
		})
	}
}

func BenchmarkReverseProxy(b *testing.B) {
	for _, n := range benchConns {
		b.Run(fmt.Sprintf("conns=%d", n), func(b *testing.B) {
			r := newRig(b)
			to := &url.URL{Scheme: "http", Host: r.raw(plain)}
			transport := &http.Transport{MaxIdleConnsPerHost: 512}
			defer transport.CloseIdleConnections()
			proxy := &httputil.ReverseProxy{
				Rewrite: func(p *httputil.ProxyRequest) {
					p.SetURL(to)
					p.SetXForwarded()
				},
				Transport: transport,
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := &http.Server{Handler: proxy}
			go s.Serve(l)
			defer s.Close()
			b.ReportAllocs()
			load(b, l.Addr().String(), "hello.localhost", n)
		})
	}
	_ = io.Discard
}
