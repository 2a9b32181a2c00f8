package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// hostName that every proxy is asked for, and routes by where it can.
const hostName = "bench.localhost"

// proxy is one contender: where it listens, and the processes whose CPU time is
// its own.
type proxy struct {
	name    string
	address string
	process *process
	stop    func()
}

// peers of ours, in a process each, before one backend. They keep their
// connections to it, log nothing, and use the processors that there are.
func (b *bench) peers(ctx context.Context, backend string) ([]*proxy, error) {
	var all []*proxy
	for _, one := range []struct {
		name  string
		start func(ctx context.Context, listen, backend string) (*process, error)
	}{{"Caddy", b.startCaddy}, {"HAProxy", b.startHAProxy}, {"ReverseProxy", b.startGo("reverseproxy")}, {"relay", b.startGo("relay")}} {
		listen, err := freeAddress()
		if err != nil {
			return all, err
		}
		p, err := one.start(ctx, listen, backend)
		if err != nil {
			return all, fmt.Errorf("cannot start %s: %w", one.name, err)
		}
		all = append(all, &proxy{name: one.name, address: listen, process: p, stop: p.stop})
		if err := p.awaitPort(ctx, listen); err != nil {
			return all, err
		}
	}
	return all, nil
}

type object = map[string]any

// startCaddy gives Caddy room for as many idle connections as there are callers:
// its default of 32 would make it dial anew at 256.
func (b *bench) startCaddy(ctx context.Context, listen, backend string) (*process, error) {
	program, err := b.build(ctx, ".", "./caddy")
	if err != nil {
		return nil, err
	}
	proxy := object{
		"handler":   "reverse_proxy",
		"upstreams": []object{{"dial": backend}},
		"transport": object{
			"protocol":    "http",
			"compression": false,
			"keep_alive":  object{"enabled": true, "max_idle_conns_per_host": 1024},
		},
	}
	route := object{"match": []object{{"host": []string{hostName}}}, "handle": []object{proxy}}
	config, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"logging": object{"logs": object{"default": object{"writer": object{"output": "discard"}, "level": "ERROR"}}},
		"apps": object{"http": object{"servers": object{"bench": object{
			"listen":          []string{listen},
			"automatic_https": object{"disable": true},
			"protocols":       []string{"h1"},
			"routes":          []object{route},
		}}}},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "caddy.json")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return nil, err
	}
	return start([]string{"HOME=" + b.dir, "XDG_DATA_HOME=" + b.dir}, program, file)
}

const haproxyConfig = `
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 60s
  option http-keep-alive
  option forwardfor
  http-reuse always
frontend bench
  bind %s
  acl ours hdr(host) -i %s
  use_backend bench if ours
backend bench
  server one %s
`

func (b *bench) startHAProxy(_ context.Context, listen, backend string) (*process, error) {
	file := filepath.Join(b.dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, listen, hostName, backend), 0o644); err != nil {
		return nil, err
	}
	name := "haproxy"
	if _, err := os.Stat("/usr/sbin/haproxy"); err == nil { // not in everyone's PATH
		name = "/usr/sbin/haproxy"
	}
	return start(nil, name, "-db", "-q", "-f", file)
}

// startGo starts one of this folder's own programs.
func (b *bench) startGo(command string) func(ctx context.Context, listen, backend string) (*process, error) {
	return func(ctx context.Context, listen, backend string) (*process, error) {
		program, err := b.build(ctx, ".", "./"+command)
		if err != nil {
			return nil, err
		}
		return start(nil, program, listen, backend)
	}
}
