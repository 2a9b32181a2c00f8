// Command caddy is Caddy's reverse proxy as it comes from its module, with the
// apps that proxying needs and no others: it runs the JSON configuration named
// as its argument until it is told to end.
package main

import (
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func main() {
	config, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatalf("cannot read the configuration: %v", err)
	}
	if err := caddy.Load(config, true); err != nil {
		log.Fatalf("cannot start Caddy: %v", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	if err := caddy.Stop(); err != nil {
		log.Fatalf("cannot stop Caddy: %v", err)
	}
}
