// Command backend answers every request with the same 200 bytes, as cheaply as
// a Go program can: it looks only for the end of a request's head, so it takes
// no request with a body. It listens on 127.0.0.1:$PORT and is ready at once.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

var endOfHead = []byte("\r\n\r\n")

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	var answer atomic.Pointer[[]byte]
	answer.Store(answerOf(time.Now()))
	go func() { // a response carries the time, as those of real servers do
		for now := range time.Tick(time.Second) {
			answer.Store(answerOf(now))
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatalf("cannot accept: %v", err)
		}
		go serve(c, &answer)
	}
}

func answerOf(now time.Time) *[]byte {
	body := strings.Repeat("0123456789abcdefghi\n", 10)
	b := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nDate: %s\r\n\r\n%s",
		len(body), now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"), body)
	return &b
}

// serve answers the heads that come whole; what is left of the next one stays
// in the buffer.
func serve(c net.Conn, answer *atomic.Pointer[[]byte]) {
	defer c.Close()
	buf, have := make([]byte, 16<<10), 0
	for {
		n, err := c.Read(buf[have:])
		if err != nil || n == 0 { // the caller has gone, or sent a head too large
			return
		}
		have += n
		for {
			i := bytes.Index(buf[:have], endOfHead)
			if i < 0 {
				break
			}
			have = copy(buf, buf[i+len(endOfHead):have])
			if _, err := c.Write(*answer.Load()); err != nil {
				return
			}
		}
	}
}
