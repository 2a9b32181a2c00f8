package resolver_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestAControlThatIsAwayIsLoggedAtItsFirstFailureAndNotAtEach(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	log := &lines{}
	cfg := config(file(t), ln.Addr().String())
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	began := time.Now()
	stop := run(t, open(t, cfg))
	for range 10 {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	// A machine that is slow may take long enough for the second time.
	if n, most := log.count("not connected to a control"), 1+int(time.Since(began)/(10*time.Second)); n < 1 || n > most {
		t.Errorf("10 attempts in %s left %d lines in the log", time.Since(began), n)
	}
}
