// Command bench compares Fairlead with its peers and with its own targets, on
// the machine it runs on. Figures differ from machine to machine, so what counts
// are ratios within one run. Read [benchmark] first; each has a file of its name.
//
//	go run . [-quick] [-write] [NAME]
//
// It needs wrk and haproxy (scripts/deps.sh installs them) and builds everything
// else into a temporary folder. With -write the sections of RESULTS.md that were
// measured are replaced, and the others kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// benchmark measures one promise.
type benchmark struct {
	name string
	// what it measures, in one line.
	what string
	run  func(context.Context, *bench) (*section, error)
}

var benchmarks = []benchmark{
	{"gateway", "the gateway against Caddy, HAProxy and httputil.ReverseProxy", benchGateway},
	{"deploy", "deploying a program that is ready at once", benchDeploy},
	{"reconcile", "one reconcile pass over unchanged services", benchReconcile},
	{"up", "starting from nothing, and idle memory", benchUp},
	{"rollback", "going back to a revision that is kept warm, until the last gateway has acknowledged", benchRollback},
	{"heal", "healing a route table that was damaged at a gateway or in the store", benchHeal},
	{"crashpoints", "trying faults at the controller's calls", benchCrashpoints},
	{"relay", "memory of a subscriber at a relay", benchRelay},
	{"estate", "the discovery plane's fold and views at a region's size", benchEstate},
	{"pick", "a caller's pick at 3,000 endpoints", benchPick},
	{"coldstart", "a caller's start from the views on its disk", benchColdStart},
	{"views", "a change's way to many subscribers, and go-control-plane's delta EDS", benchViews},
	{"commits", "commits of the store, single and grouped", benchCommits},
}

// bench is one run of the program.
type bench struct {
	dir    string // for what is built and written; removed at the end
	quick  bool
	runs   int
	sample time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	b := &bench{}
	quick := flag.Bool("quick", false, "fewer and shorter samples, while developing")
	write := flag.Bool("write", false, "replace the measured sections of RESULTS.md")
	flag.IntVar(&b.runs, "runs", 0, "how often each figure is measured (default 7, 3 with -quick)")
	flag.DurationVar(&b.sample, "sample", 0, "length of one sample of load (default 3s, 1s with -quick)")
	flag.Usage = usage
	flag.Parse()
	b.quick = *quick
	b.defaults()
	chosen, err := choose(flag.Args())
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "fairlead-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	return b.all(ctx, chosen, *write)
}

func (b *bench) defaults() {
	if b.runs <= 0 {
		b.runs = 7
		if b.quick {
			b.runs = 3
		}
	}
	if b.sample <= 0 {
		b.sample = 3 * time.Second
		if b.quick {
			b.sample = time.Second
		}
	}
}

// all runs the chosen ones. One that fails does not keep the others from it.
func (b *bench) all(ctx context.Context, chosen []benchmark, write bool) error {
	m, at := thisMachine(), commit() // as it was built
	fmt.Println(m)
	var failed []string
	for _, one := range chosen {
		fmt.Printf("\n== %s: %s\n", one.name, one.what)
		s, err := one.run(ctx, b)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", one.name, err)
			failed = append(failed, one.name)
			continue
		}
		s.name, s.what, s.command = one.name, one.what, b.command(one.name)
		fmt.Print(s.text())
		if write {
			if err := writeSection("RESULTS.md", s, m, at); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("cannot measure: %s", strings.Join(failed, ", "))
	}
	return nil
}

func (b *bench) command(name string) string {
	c := "go run . -write"
	if b.quick {
		c += " -quick"
	}
	return fmt.Sprintf("%s -runs %d -sample %s %s", c, b.runs, b.sample, name)
}

func choose(args []string) ([]benchmark, error) {
	if len(args) == 0 {
		return benchmarks, nil
	}
	var chosen []benchmark
	for _, a := range args {
		found := false
		for _, one := range benchmarks {
			if one.name == a {
				chosen, found = append(chosen, one), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no benchmark %q; run with -h to see which there are", a)
		}
	}
	return chosen, nil
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: go run . [FLAGS] [NAME]...   (no name: all)")
	for _, one := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-10s %s\n", one.name, one.what)
	}
	flag.PrintDefaults()
}
