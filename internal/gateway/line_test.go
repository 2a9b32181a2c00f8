package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// twoEnds are both ends of one connection; who is at the other may do as it likes.
func twoEnds(t *testing.T) (*line, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newLine(c.(*net.TCPConn)), other
}

func TestADeadlineThatMovesOnNeverStrikesEarly(t *testing.T) {
	l, other := twoEnds(t)
	if err := l.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	other.Write([]byte("x"))
	if _, err := io.ReadFull(l, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	by := time.Now().Add(150 * time.Millisecond)
	if err := l.SetReadDeadline(by); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(by) {
		t.Errorf("read %d, %v, %s before the deadline", n, err, time.Until(by))
	}
}

func TestADeadlineThatIsTakenAwayNeverStrikes(t *testing.T) {
	l, other := twoEnds(t)
	if err := l.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(l, make([]byte, 1))
		read <- err
	}()
	until(t, "somebody reads", l.in.busy)
	if err := l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the runtime was told", func() bool {
		l.in.mu.Lock()
		defer l.in.mu.Unlock()
		return l.in.told.IsZero()
	})
	other.Write([]byte("x"))
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestADeadlineThatComesNearerBindsWhoWaitsAlready(t *testing.T) {
	l, _ := twoEnds(t)
	for _, later := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := l.SetReadDeadline(later); err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := l.Read(make([]byte, 1))
			read <- err
		}()
		until(t, "somebody reads", l.in.busy)
		if err := l.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
	}
}

func TestAWriteThatIsCutByAnEarlierDeadlineGoesOnWhereItWas(t *testing.T) {
	l, other := twoEnds(t)
	sent := make([]byte, 16<<20) // more than the kernel takes
	for i := range sent {
		sent[i] = byte(i * 7 >> 8)
	}
	if err := l.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		n, err := l.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		wrote <- err
	}()
	until(t, "the earlier deadline struck", func() bool {
		l.out.mu.Lock()
		defer l.out.mu.Unlock()
		return time.Until(l.out.told) > 10*time.Second
	})
	got := make([]byte, 1+len(sent))
	if _, err := io.ReadFull(other, got); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	for i := range sent {
		if got[1+i] != sent[i] {
			t.Fatalf("byte %d came as %d, want %d", i, got[1+i], sent[i])
		}
	}
}

// The server reads ahead of a request by itself where its head came with the one
// before. What it notices ends the request.
func TestARequestThatTheServerWatchesEndsWhenTheServerSaysSo(t *testing.T) {
	l, other := twoEnds(t)
	c := &caller{line: l, all: newCallers(nil)}
	read := make(chan error, 1)
	go func() {
		_, err := l.Read(make([]byte, 1))
		read <- err
	}()
	until(t, "the server reads", l.in.busy)
	ctx, cancel := context.WithCancel(t.Context())
	e := newEnding()
	c.begin((&http.Request{}).WithContext(ctx), e, time.Now())
	if c.look(time.Now()) || e.came() {
		t.Error("it should be watched, and not have ended")
	}
	cancel()
	<-e.news
	if c.leave() {
		t.Error("the end came, and leave says that it did not")
	}
	other.Close()
	<-read
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}
