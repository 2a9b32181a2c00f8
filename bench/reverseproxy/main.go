// Command reverseproxy is httputil.ReverseProxy as bare as it comes: what a Go
// program gets for nothing. Its arguments are the address to listen on and the
// address of the backend.
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: reverseproxy LISTEN BACKEND")
	}
	backend := &url.URL{Scheme: "http", Host: os.Args[2]}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableCompression = true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
	}
	log.Fatal(http.ListenAndServe(os.Args[1], proxy))
}
