// Command fanout is both ends of the comparison of how a change reaches many
// subscribers: a server, ours or go-control-plane's delta EDS cache, which takes
// commands by its standard input and answers each with a line of JSON, and the
// subscribers, which acknowledge what they are sent. Both know the same services.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// size of what is compared. A subscriber holds the first service, which changes
// when something fails, and nine of the others.
type size struct {
	subscribers, services, endpoints int
}

const held = 10

func service(i int) string { return fmt.Sprintf("service-%03d", i) }

// holds are the services of one subscriber.
func (z size) holds(subscriber int) []string {
	out := []string{service(0)}
	for k := range held - 1 {
		out = append(out, service(1+(subscriber*(held-1)+k)%(z.services-1)))
	}
	return out
}

func endpoint(service string, i int) string { return fmt.Sprintf("%s-00001.%05d", service, i) }

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d:8080", 1+i/62500, i/250%250, 1+i%250) }

// side is one way of serving.
type side interface {
	// await returns once every subscriber has acknowledged everything.
	await(z size)
	// fail takes an endpoint of the first service out, and returns how long 99% and
	// 99.9% of the acknowledgements took.
	fail(z size) (p99, p999 time.Duration)
	// recover puts it back, and returns once that is acknowledged.
	recover(z size)
	// churn changes endpoints at a rate for a while; so many of a hundred are
	// failures.
	churn(z size, rate float64, d time.Duration, failures int) churned
}

// churned is what became of a time of changes.
type churned struct {
	Changes                int
	Withdrawals, Additions int64   // acknowledgements that were due
	In5, In15, In30        float64 // shares of them that came in time
	Window                 float64 // seconds that additions waited at most
	Behind                 float64 // seconds after the last change until all was acknowledged; -1 is not within a minute
}

var sent atomic.Int64 // bytes, with TLS

type counting struct{ net.Listener }

type countingConn struct{ net.Conn }

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c}, nil
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	sent.Add(int64(n))
	return n, err
}

func main() {
	ours := flag.Bool("ours", true, "ours, or go-control-plane's")
	client := flag.String("subscribe", "", "address to subscribe at; empty serves")
	listen := flag.String("listen", "127.0.0.1:0", "address to serve at")
	var z size
	flag.IntVar(&z.subscribers, "subscribers", 1000, "")
	flag.IntVar(&z.services, "services", 450, "")
	flag.IntVar(&z.endpoints, "endpoints", 100, "")
	flag.Parse()
	if *client != "" {
		if *ours {
			subscribeOurs(*client, z)
		} else {
			subscribeXDS(*client, z)
		}
		return
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	var s side
	if *ours {
		s = serveOurs(counting{l}, z)
	} else {
		s = serveXDS(counting{l}, z)
	}
	fmt.Println("ready")
	obey(s, z)
}

// answer to a command.
type answer struct {
	P99, P999 float64  `json:",omitempty"` // ms
	Churned   *churned `json:",omitempty"`
	Bytes     int64
	CPU       float64 // seconds
	HeapKiB   int64   `json:",omitempty"`
	StackKiB  int64   `json:",omitempty"`
}

func obey(s side, z size) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		var a answer
		bytes, cpu := sent.Load(), cpuSeconds()
		switch words[0] {
		case "await":
			s.await(z)
		case "fail":
			p99, p999 := s.fail(z)
			time.Sleep(50 * time.Millisecond) // the last thousandth
			a.P99, a.P999 = float64(p99.Microseconds())/1000, float64(p999.Microseconds())/1000
			a.Bytes, a.CPU = sent.Load()-bytes, cpuSeconds()-cpu
			s.recover(z)
			tell(a)
			continue
		case "churn":
			rate, badRate := strconv.ParseFloat(words[1], 64)
			d, badTime := time.ParseDuration(words[2])
			failures, badCount := strconv.Atoi(words[3])
			if err := errors.Join(badRate, badTime, badCount); err != nil {
				log.Fatalf("cannot churn as %q asks: %v", words, err)
			}
			c := s.churn(z, rate, d, failures)
			a.Churned = &c
		case "profile":
			if len(words) > 1 {
				f, err := os.Create(words[1])
				if err == nil {
					err = pprof.StartCPUProfile(f)
				}
				if err != nil {
					log.Fatal(err)
				}
			} else {
				pprof.StopCPUProfile()
			}
		case "memory":
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			a.HeapKiB, a.StackKiB = int64(m.HeapAlloc/1024), int64(m.StackInuse/1024)
		default:
			log.Fatalf("unknown command %q", words[0])
		}
		a.Bytes, a.CPU = sent.Load()-bytes, cpuSeconds()-cpu
		tell(a)
	}
}

func tell(a answer) {
	b, err := json.Marshal(a)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// certificate is made anew: subscribers take any.
func certificate() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"bench"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
}

// quantiles waits until so many acknowledgements were counted, and says how long
// 99% and 99.9% of them took.
func quantiles(all int64, began time.Time, count func() int64) (p99, p999 time.Duration) {
	for p999 == 0 && time.Since(began) < 2*time.Minute {
		n := count()
		if p99 == 0 && 100*n >= 99*all {
			p99 = time.Since(began)
		}
		if 1000*n >= 999*all {
			p999 = time.Since(began)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return p99, p999
}
