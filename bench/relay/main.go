// Command relay passes requests and responses on without reading them: what a
// proxy written in Go pays for the network alone. It is no proxy: it has one
// connection to the backend per caller, and takes what one read gives it for a
// whole message. Its arguments are the address to listen on and the address of
// the backend.
package main

import (
	"log"
	"net"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: relay LISTEN BACKEND")
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	for {
		caller, err := l.Accept()
		if err != nil {
			log.Fatalf("cannot accept: %v", err)
		}
		go serve(caller, os.Args[2])
	}
}

// serve ends at the first error, which is the caller's going away.
func serve(caller net.Conn, address string) {
	defer caller.Close()
	backend, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer backend.Close()
	buf := make([]byte, 8<<10)
	for {
		for _, way := range [2][2]net.Conn{{caller, backend}, {backend, caller}} {
			n, err := way[0].Read(buf)
			if err != nil {
				return
			}
			if _, err := way[1].Write(buf[:n]); err != nil {
				return
			}
		}
	}
}
