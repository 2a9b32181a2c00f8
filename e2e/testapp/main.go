// Command testapp is the program that the end-to-end tests deploy: an HTTP
// server that says who it is, streams, upgrades, swallows and makes large
// bodies, prints at every request, keeps a ledger of what it executed, and
// misbehaves on request. It never imports Fairlead. Read main's routes first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// version is replaced by the tests (-ldflags -X) to make another program of the same name.
var version = "1"

func main() {
	listen := flag.String("listen", "0.0.0.0:"+os.Getenv("PORT"), "address to listen on")
	exitAfter := flag.Duration("exit-after", 0, "exit with status 7 after this long; zero means never")
	needs := flag.String("needs", "", "exit with status 8 a second after the start unless this file is there")
	slowStart := flag.Duration("slow-start", 0, "wait before listening")
	alone := flag.String("alone", "", "lock this file; where another has it, note that in FILE.met and exit with status 8")
	ignoreTerm := flag.Bool("ignore-term", false, "do not end on SIGTERM")
	flag.Parse()
	fmt.Printf("testapp %s starts: revision %s instance %s on %s\n", version, os.Getenv("FAIRLEAD_REVISION"), os.Getenv("FAIRLEAD_INSTANCE"), *listen)
	if *exitAfter > 0 {
		time.AfterFunc(*exitAfter, func() {
			fmt.Println("testapp gives up, as it was told")
			os.Exit(7)
		})
	}
	if _, err := os.Stat(*needs); *needs != "" && err != nil {
		time.AfterFunc(time.Second, func() {
			fmt.Println("testapp lacks a file:", err)
			os.Exit(8)
		})
	}
	if *alone != "" {
		lock(*alone)
	}
	time.Sleep(*slowStart)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Println("cannot listen:", err)
		os.Exit(1)
	}
	server := &http.Server{Handler: routes()}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		if *ignoreTerm {
			return
		}
		if err := server.Shutdown(context.Background()); err != nil {
			fmt.Println("cannot shut down:", err)
		}
	}()
	var deaf atomic.Bool // from SIGUSR2 on it takes no connection, and lives on
	usr2 := make(chan os.Signal, 1)
	signal.Notify(usr2, syscall.SIGUSR2)
	go func() {
		<-usr2
		deaf.Store(true)
		if err := l.Close(); err != nil {
			fmt.Println("cannot close its port:", err)
		}
	}()
	err = server.Serve(l)
	if deaf.Load() {
		select {}
	}
	if !errors.Is(err, http.ErrServerClosed) {
		fmt.Println("cannot serve:", err)
		os.Exit(1)
	}
}

// lock has a file until the process ends, or ends the process.
func lock(path string) {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err == nil {
		err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		return
	}
	fmt.Println("not alone:", err)
	if err := os.WriteFile(path+".met", []byte(os.Getenv("FAIRLEAD_REVISION")+" met another\n"), 0o600); err != nil {
		fmt.Println(err)
	}
	os.Exit(8)
}

// from the first signal of a kind on it is true.
func from(s syscall.Signal) *atomic.Bool {
	came := &atomic.Bool{}
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	go func() {
		<-c
		came.Store(true)
	}()
	return came
}

func routes() http.Handler {
	var served, inFlight, most atomic.Int64
	ill := from(syscall.SIGUSR1)     // on a third of all requests fail
	slow := from(syscall.SIGWINCH)   // on each answer takes two seconds
	hangs := from(syscall.SIGVTALRM) // on nobody is answered
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s\n", os.Getenv("FAIRLEAD_REVISION"), os.Getenv("FAIRLEAD_INSTANCE"), version)
	})
	mux.HandleFunc("/pid", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) {
		for _, kv := range os.Environ() {
			fmt.Fprintln(w, kv)
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		if err := r.Header.Write(w); err != nil {
			fmt.Println("cannot write headers:", err)
		}
	})
	mux.HandleFunc("/sleep", sleep)
	mux.HandleFunc("POST /execute", execute)
	mux.HandleFunc("/zeros", zeros)
	mux.HandleFunc("/count", count)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/ticks", ticks)
	mux.HandleFunc("/ws", socket)
	mux.HandleFunc("/most", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, most.Load()) })
	mux.HandleFunc("/now", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, inFlight.Load()-1) }) // without this one
	mux.HandleFunc("/die", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("testapp dies, as it was told")
		os.Exit(9)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := inFlight.Add(1)
		defer inFlight.Add(-1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		n := served.Add(1)
		fmt.Printf("request %d: %s %s\n", n, r.Method, r.URL.Path)
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		if slow.Load() {
			time.Sleep(2 * time.Second)
		}
		if ill.Load() && n%3 == 0 {
			http.Error(w, "ill, as it was told", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// sleep answers after ?for=DURATION, or notices that the caller left.
func sleep(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(d):
		fmt.Fprintf(w, "%s slept %s\n", os.Getenv("FAIRLEAD_REVISION"), d)
	case <-r.Context().Done():
		fmt.Println("the caller hung up")
	}
}

// execute notes ?key= in the ledger, in the folder that LEDGER names, takes
// ?for=, and says who it is.
func execute(w http.ResponseWriter, r *http.Request) {
	d, errD := time.ParseDuration(r.URL.Query().Get("for"))
	f, errF := os.OpenFile(filepath.Join(os.Getenv("LEDGER"), "executed"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err := errors.Join(errD, errF); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, err := fmt.Fprintf(f, "%s %s %s\n", r.URL.Query().Get("key"), os.Getenv("FAIRLEAD_REVISION"), os.Getenv("FAIRLEAD_INSTANCE"))
	if err := errors.Join(err, f.Close()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	time.Sleep(d)
	fmt.Fprintf(w, "%s %s %s\n", os.Getenv("FAIRLEAD_REVISION"), os.Getenv("FAIRLEAD_INSTANCE"), version)
}

// zeros sends ?n= zero bytes.
func zeros(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	chunk := make([]byte, 64<<10)
	for n > 0 {
		m, err := w.Write(chunk[:min(n, int64(len(chunk)))])
		if err != nil {
			return
		}
		n -= int64(m)
	}
}

// count reads the whole body and says how long it was.
func count(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		fmt.Println("cannot read the body:", err)
		return
	}
	fmt.Fprint(w, n)
}

// echo sends each part of the body back as soon as it comes.
func echo(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		fmt.Println("cannot go full duplex:", err)
	}
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if err := rc.Flush(); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// ticks sends ?n= lines, one each ?every=.
func ticks(w http.ResponseWriter, r *http.Request) {
	n, errN := strconv.Atoi(r.URL.Query().Get("n"))
	every, errD := time.ParseDuration(r.URL.Query().Get("every"))
	if err := errors.Join(errN, errD); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range n {
		fmt.Fprintf(w, "data: %d\n\n", i)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-time.After(every):
		case <-r.Context().Done():
			return
		}
	}
}

// socket echoes WebSocket messages, each with the revision before it.
func socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		fmt.Println("cannot accept:", err)
		return
	}
	defer c.CloseNow()
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil {
			return
		}
		data = append([]byte(os.Getenv("FAIRLEAD_REVISION")+" "), data...)
		if err := c.Write(r.Context(), kind, data); err != nil {
			return
		}
	}
}
