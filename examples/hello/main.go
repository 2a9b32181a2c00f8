// Command hello is the tour's second program: it greets, says which revision
// of itself answers, and prints each request. It knows nothing of Fairlead
// beyond the PORT it is told to listen on.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	greeting := cmp.Or(os.Getenv("GREETING"), "hello")
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprintf(w, "%s from %s\n", greeting, os.Getenv("FAIRLEAD_REVISION"))
	})
	log.Fatal(http.ListenAndServe("0.0.0.0:"+os.Getenv("PORT"), nil))
}
