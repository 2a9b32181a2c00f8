package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// liar is a gateway and an instance in one that misbehave at the tenth request.
type liar struct {
	mu     sync.Mutex
	ledger string
	n      int
	get    bool // the tenth GET, else the tenth POST
	lie    func(w http.ResponseWriter, answer func(named, by string), execute func())
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := r.URL.Query().Get("key")
	execute := func() {
		f, err := os.OpenFile(filepath.Join(l.ledger, "executed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		defer f.Close()
		fmt.Fprintf(f, "%s hello-00001 i1\n", key)
	}
	answer := func(named, by string) {
		w.Header().Set("Fairlead-Revision", named)
		fmt.Fprintf(w, "%s i1 1\n", by)
	}
	if (key == "") == l.get {
		if l.n++; l.n == 10 {
			l.lie(w, answer, execute)
			return
		}
	}
	if key != "" {
		execute()
	}
	answer("hello-00001", "hello-00001")
}

func TestTheOracleNoticesWhatIsLostDoubledOrAnsweredByTheWrongRevision(t *testing.T) {
	closes := func(w http.ResponseWriter) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
	}
	type lie = func(w http.ResponseWriter, answer func(named, by string), execute func())
	for name, c := range map[string]struct {
		lie                         lie
		before                      func(p *plant)
		get                         bool
		lost, doubled, wrong, apart int
		late                        int
	}{
		"nothing": {lie: func(_ http.ResponseWriter, answer func(named, by string), execute func()) {
			execute()
			answer("hello-00001", "hello-00001")
		}},
		"a refusal":                       {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { w.WriteHeader(503) }, lost: 1},
		"a closed connection":             {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { closes(w) }, lost: 1},
		"one closed by a gateway's death": {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { closes(w) }, before: func(p *plant) { p.away("gw1") }, apart: 1},
		"one closed long after it": {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) {
			time.Sleep(atOnce + 100*time.Millisecond)
			closes(w)
		}, before: func(p *plant) { p.away("gw1"); p.died("gw1") }, apart: 1, late: 1},
		"a 502 by an instance's death":          {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { w.WriteHeader(502) }, before: func(p *plant) { p.away(instancesOf("hello")) }, apart: 1},
		"a 502 of a GET by an instance's death": {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { w.WriteHeader(502) }, get: true, before: func(p *plant) { p.away(instancesOf("hello")) }, lost: 1},
		"a 503 by an instance's death":          {lie: func(w http.ResponseWriter, _ func(named, by string), _ func()) { w.WriteHeader(503) }, before: func(p *plant) { p.away(instancesOf("hello")) }, lost: 1},
		"executed twice": {lie: func(_ http.ResponseWriter, answer func(named, by string), execute func()) {
			execute()
			execute()
			answer("hello-00001", "hello-00001")
		}, doubled: 1},
		"answered, never executed": {lie: func(_ http.ResponseWriter, answer func(named, by string), _ func()) {
			answer("hello-00001", "hello-00001")
		}, lost: 1},
		"answered by another than named": {lie: func(_ http.ResponseWriter, answer func(named, by string), execute func()) {
			execute()
			answer("hello-00002", "hello-00001")
		}, wrong: 1},
		"a revision that was not to answer": {lie: func(_ http.ResponseWriter, answer func(named, by string), _ func()) {
			answer("hello-00003", "hello-00003")
		}, wrong: 1, lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plant{world: &world{t: t, data: t.TempDir()}, history: &history{}}
			if err := os.MkdirAll(p.ledger("hello"), 0o700); err != nil {
				t.Fatal(err)
			}
			l := &liar{ledger: p.ledger("hello"), get: c.get}
			server := httptest.NewServer(l)
			defer server.Close()
			p.entrances = []entrance{{"gw1", strings.TrimPrefix(server.URL, "http://")}}
			l.lie = func(w http.ResponseWriter, answer func(named, by string), execute func()) {
				if c.before != nil {
					c.before(p)
				}
				c.lie(w, answer, execute)
				p.back("gw1", 0)
				p.back(instancesOf("hello"), 0)
			}
			o := p.call("hello", 1, "hello-00001")
			o.more(40)
			v := o.verdict()
			if len(v.lost) != c.lost || len(v.doubled) != c.doubled || len(v.wrong) != c.wrong || v.apart != c.apart || len(v.late) != c.late {
				t.Errorf("%+v", v)
			}
		})
	}
}
