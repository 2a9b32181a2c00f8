// Command testcaller is a caller as the README writes one, for the end-to-end
// tests: it sends requests to a service, one after the other, and prints each
// outcome that is new, and at its end how many there were of each.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/httpresolver"
)

func main() {
	state := flag.String("state", "", "folder that is kept between runs")
	service := flag.String("service", "", "whom to call")
	workers := flag.Int("workers", 4, "how many call at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	r, err := resolver.Open(ctx, resolver.Config{StateDir: *state, Services: []string{*service}})
	if err != nil {
		fmt.Println("cannot open:", err)
		os.Exit(1)
	}
	client := &http.Client{Transport: httpresolver.New(r), Timeout: 10 * time.Second}
	if got, err := r.Resolve(*service); err == nil {
		fmt.Println("opened with a view from", got.Source)
	}

	if err := r.Await(ctx, *service); err != nil { // it may be started before anything is deployed
		fmt.Println(err)
	}

	c := &counts{all: map[string]int{}}
	var calling sync.WaitGroup
	for range *workers {
		calling.Go(func() {
			for ctx.Err() == nil {
				c.add(call(client, "http://"+*service+"/"))
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	go func() { // every second, for who waits for more
		for range time.Tick(time.Second) {
			c.print("so far")
		}
	}()
	calling.Wait()
	c.print("in all")
	s := r.Status()
	fmt.Printf("connected %v, notes %q, panics %d\n", s.Connected, s.Notes, s.Panics)
	if err := r.Close(); err != nil {
		fmt.Println("cannot close:", err)
	}
}

// call is the outcome of one request, in a word.
func call(client *http.Client, url string) string {
	resp, err := client.Get(url)
	if err != nil {
		return "failed: " + err.Error()
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "failed: " + err.Error()
	}
	return resp.Status
}

// counts are how many there were of each outcome.
type counts struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counts) add(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[outcome]++; c.all[outcome] == 1 {
		fmt.Println("first", outcome)
	}
}

func (c *counts) print(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Println(what, c.all)
}
