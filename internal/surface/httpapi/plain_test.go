package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

// raw asks by hand and returns the status and the text of the answer.
func (w *world) raw(method, path, contentType, body string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestAPathThatIsNoMethodIsNotFoundAndSaysWhatThereIs(t *testing.T) {
	w := newWorld(t, memory.Open(memory.Options{}))
	for _, c := range []struct{ method, path, contentType, says string }{
		{"GET", "/", "", "/fairlead.v1.ServiceAPIService/METHOD"},
		{"GET", "/healthz", "", "/fairlead.v1.AdminAPIService/METHOD"},
		{"POST", "/v1/services", "application/json", "there is nothing at \\\"/v1/services\\\""},
		{"POST", "/fairlead.v1.ServiceAPIService/GetStaus", "application/json", "there is nothing at"},
		{"GET", "/fairlead.v1.ServiceAPIService/GetStaus", "", "GetStatus"},
		{"GET", "/fairlead.v1.ServiceAPIService/", "", "METHOD"},
	} {
		status, text := w.raw(c.method, c.path, c.contentType, "{}")
		if status != http.StatusNotFound || !strings.Contains(text, c.says) {
			t.Errorf("%s %s is answered with %d %s, not with 404 and %q", c.method, c.path, status, text, c.says)
		}
	}
}

func TestAFieldThatIsNotKnownIsRefusedByName(t *testing.T) {
	w := newWorld(t, memory.Open(memory.Options{}))
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		status, text := w.raw("POST", "/fairlead.v1.ServiceAPIService/Deploy", contentType,
			`{"service":"hello","instances":1,"template":{"command":["true"],"readypath":"/healthz"}}`)
		var refused struct{ Code, Message string }
		if err := json.Unmarshal([]byte(text), &refused); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if status != http.StatusBadRequest || refused.Code != "invalid_argument" || !strings.Contains(refused.Message, `"readypath"`) {
			t.Errorf("%s: an unknown field is answered with %d %s", contentType, status, text)
		}
		if status, text = w.raw("POST", "/fairlead.v1.ServiceAPIService/GetService", contentType, `{"service":"hello"}`); status != http.StatusNotFound || !strings.Contains(text, "there is no service") {
			t.Errorf("%s: a refused deploy left something: %d %s", contentType, status, text)
		}
	}
}
