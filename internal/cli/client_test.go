package cli

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestAnAnswerThatIsLongInComingIsSaidOnceAndWaitedFor(t *testing.T) {
	for _, x := range []struct {
		name, kind string
		takes      time.Duration
		want       int
	}{
		{"at once", "application/proto", time.Second, 0},
		{"a control that is stopped for a while", "application/proto", time.Minute, 1},
		{"a stream that has nothing to say", "application/connect+proto", time.Hour, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			p := &patient{after: answerWait, tell: func() { told++ }, next: answering(func(*http.Request) (*http.Response, error) {
				time.Sleep(x.takes)
				synctest.Wait()
				return &http.Response{Body: http.NoBody}, nil
			})}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://fairlead/", strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", x.kind)
			resp, err := p.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil || told != x.want {
				t.Errorf("%s: it is said %d times, %v", x.name, told, err)
			}
		})
	}
}
