package hosttest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// QuickExit, as GORACE, spares programs built with the race detector the second
// that they would sleep before they exit.
const QuickExit = "atexit_sleep_ms=0"

// programArg makes a test binary a program of the suite instead.
const programArg = "hosttest-program"

// Programs of the real world beyond those of the suite.
const (
	Prints    Program = "prints"     // serves, and prints a line at every request
	Loopback6 Program = "loopback-6" // listens on [::1] only
	Stubborn  Program = "stubborn"   // serves, and ignores SIGTERM
	Env       Program = "env"        // serves its environment, ids and working directory
	Floods    Program = "floods"     // serves, and prints as fast as it can
	OwnAddr   Program = "other-loop" // listens on 127.0.0.2 only
	Wavers    Program = "wavers"     // serves, and answers every other question for /ready with 503
	Deafens   Program = "deafens"    // serves, and closes its listening socket when asked for /close
	Keeps     Program = "keeps"      // serves, and keeps what asks for /keep open until it is asked for /release
)

// Main runs the program that a test binary was started as, and does not return
// then. A package whose tests run real instances calls it first in TestMain.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != programArg {
		return
	}
	if err := runProgram(Program(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TemplateOf runs a program by the present test binary.
func TemplateOf(p Program) service.Template {
	if p == Missing {
		return service.Template{Command: []string{"no-such-command-anywhere"}}
	}
	self, err := os.Executable()
	if err != nil {
		panic(fmt.Sprintf("cannot find the test binary: %v", err)) // of tests only
	}
	return service.Template{
		Command: []string{self, programArg, string(p), "$(PORT)"},
		Env:     map[string]string{"GORACE": QuickExit},
	}
}

func runProgram(p Program) error {
	port := os.Args[3]
	if p == Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	switch p {
	case NeverListens:
		fmt.Println("I do not listen")
		select {}
	case WrongPort:
		return serve("127.0.0.1:0", "hello")
	case Loopback6:
		return serve("[::1]:"+port, "hello")
	case OwnAddr:
		return serve("127.0.0.2:"+port, "hello")
	case Exits:
		time.AfterFunc(200*time.Millisecond, func() {
			fmt.Println("these are my last words")
			os.Exit(3)
		})
	case Floods:
		go flood()
	}
	return serve("127.0.0.1:"+port, p)
}

func flood() {
	for i := 0; ; i++ {
		fmt.Println("line", strconv.Itoa(i), "of a flood that does not end while anybody looks at it")
	}
}

func serve(addr string, p Program) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	var asked atomic.Int64
	release := make(chan struct{})
	err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/unready":
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		case p == Wavers && r.URL.Path == "/ready" && asked.Add(1)%2 == 0:
			http.Error(w, "not now", http.StatusServiceUnavailable)
		case p == Deafens && r.URL.Path == "/close":
			l.Close()
			hello(w)
		case p == Keeps && r.URL.Path == "/keep":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		case p == Keeps && r.URL.Path == "/release":
			close(release)
			hello(w)
		case p == Prints:
			fmt.Println("request", r.URL.Path)
			hello(w)
		case p == Env:
			dir, _ := os.Getwd()
			fmt.Fprintf(w, "uid=%d\ngid=%d\ncwd=%s\n", os.Getuid(), os.Getgid(), dir)
			groups, _ := os.Getgroups()
			fmt.Fprintln(w, "groups", groups)
			for _, kv := range os.Environ() {
				fmt.Fprintln(w, kv)
			}
		default:
			hello(w)
		}
	}))
	if p == Deafens {
		time.Sleep(time.Hour)
	}
	return err
}

func hello(w io.Writer) { fmt.Fprintf(w, "hello from %d\n", os.Getpid()) }
