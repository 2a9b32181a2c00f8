package host

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/service"
)

const (
	fileWords = "words.json"
	selfPath  = "/v1/self"
	// mostSaid is the longest word, in bytes.
	mostSaid = 64 << 10
	// mostPassedOver of one that is longer, in bytes, so that it can be answered.
	mostPassedOver = 16 << 20
	// wordWait bounds one request of an instance.
	wordWait = 10 * time.Second
)

// Reasons for which a word is discarded; each is a label of the metric.
const (
	wordOfNobody  = "unknown-token" // of no instance that runs here
	wordOfAnother = "not-itself"    // an instance about another one
	wordUnsayable = "out-of-range"  // what cannot be read, or cannot be honest
)

// words is where instances speak for themselves: a loopback port, where each is
// known by a token in its environment and can speak of itself only. Port and
// key outlive the host's process, as the environments of instances do.
type words struct {
	h         *Host
	log       *slog.Logger
	ln        net.Listener // nil where no port could be had
	key       []byte
	discarded *prometheus.CounterVec
}

// wordsRecord is what the folder keeps.
type wordsRecord struct {
	Port int    `json:"port"`
	Key  string `json:"key"`
}

// openWords listens where it did before. Where that port is taken it listens
// elsewhere: instances that were started before have only their host's word
// then.
func openWords(h *Host) (*words, error) {
	w := &words{h: h, log: h.log, discarded: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_host_discarded_words_total", Help: "What instances said that was not theirs to say or could not be read, by reason.",
	}, []string{"reason"})}
	for _, reason := range []string{wordOfNobody, wordOfAnother, wordUnsayable} {
		w.discarded.WithLabelValues(reason)
	}
	if err := w.register(h.cfg.Metrics); err != nil {
		return nil, err
	}
	copies, err := readTwice[wordsRecord](h.folder, fileWords, h.log)
	if errors.Is(err, errDamaged) {
		err = h.folder.setBothAside(fileWords, err, h.log)
	}
	if err != nil {
		return nil, err
	}
	r := wordsRecord{}
	if len(copies) > 0 {
		r = copies[0]
	}
	if w.key, err = hex.DecodeString(r.Key); err != nil || len(w.key) != sha256.Size {
		w.key = make([]byte, sha256.Size)
		if _, err := rand.Read(w.key); err != nil {
			return nil, fmt.Errorf("cannot make the key of the instance API: %w", err)
		}
	}
	return w, w.listen(r)
}

// register has the hosts of one process count together.
func (w *words) register(r *prometheus.Registry) error {
	if r == nil {
		return nil
	}
	var other prometheus.AlreadyRegisteredError
	err := r.Register(w.discarded)
	if !errors.As(err, &other) {
		return err
	}
	var same bool
	if w.discarded, same = other.ExistingCollector.(*prometheus.CounterVec); !same {
		return err
	}
	return nil
}

func (w *words) listen(was wordsRecord) (err error) {
	w.ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(was.Port)))
	if err != nil && was.Port != 0 {
		w.log.Warn("the instance API listens elsewhere: instances that run already cannot speak for themselves", "error", err)
		w.ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil { // instances run all the same
		w.log.Error("there is no instance API", "error", err)
		w.ln = nil
		return nil
	}
	now := wordsRecord{Port: w.ln.Addr().(*net.TCPAddr).Port, Key: hex.EncodeToString(w.key)}
	if now == was {
		return nil
	}
	if err := w.h.folder.writeTwice(fileWords, now); err != nil {
		return errors.Join(fmt.Errorf("cannot keep where the instance API listens: %w", err), w.ln.Close())
	}
	return nil
}

// url is where an instance speaks; empty where there is no port.
func (w *words) url() string {
	if w.ln == nil {
		return ""
	}
	return "http://" + w.ln.Addr().String() + selfPath
}

// token is by which an instance is known. It needs no record: the instance's
// identity is in it, sealed with the key.
func (w *words) token(id string) string {
	mac := hmac.New(sha256.New, w.key)
	mac.Write([]byte(id)) // never fails
	return id + "." + hex.EncodeToString(mac.Sum(nil)[:16])
}

// close gives the port up, where it is not served.
func (w *words) close() {
	if w != nil && w.ln != nil {
		_ = w.ln.Close() // it may be closed by its server
	}
}

// serve takes what instances say until the host lets go of everything.
func (w *words) serve() {
	if w.ln == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+selfPath, w.put)
	mux.HandleFunc("GET "+selfPath, w.get)
	srv := &http.Server{
		Handler: http.TimeoutHandler(mux, wordWait, ""), ReadTimeout: wordWait, WriteTimeout: wordWait + time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(w.h.ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(w.ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		w.log.Error("the instance API ended", "error", err)
	}
}

// said is a word as it comes and goes: as JSON, with shares between 0 and 1.
type said struct {
	// Instance may be left out: who speaks is known by the token.
	Instance     string                    `json:"instance,omitempty"`
	Ready        *bool                     `json:"ready,omitempty"` // left out: true
	Draining     bool                      `json:"draining"`
	Dependencies map[string]saidDependency `json:"dependencies,omitempty"` // :: name → how it does
}

type saidDependency struct {
	Degraded float64 `json:"degraded"`
	Detail   string  `json:"detail,omitempty"`
}

// word is what is said, in the core's form.
func (s said) word() (service.Word, error) {
	w := service.Word{Unready: s.Ready != nil && !*s.Ready, Draining: s.Draining}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		degraded, err := service.Thousandths(s.Dependencies[name].Degraded)
		if err != nil {
			return w, fmt.Errorf("dependency %q: %w", name, err)
		}
		w.Dependencies = append(w.Dependencies, service.DependencyWord{Name: name, Degraded: degraded, Detail: s.Dependencies[name].Detail})
	}
	return w, w.Check()
}

// put replaces what the instance says of itself.
func (w *words) put(rw http.ResponseWriter, r *http.Request) {
	id, ok := w.who(rw, r)
	if !ok {
		return
	}
	var s said
	body := &io.LimitedReader{R: r.Body, N: mostSaid}
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	switch {
	case body.N == 0:
		err = fmt.Errorf("it is longer than %d KiB", mostSaid>>10)
		// Who still writes as the connection closes is told of a reset, and not why.
		_, _ = io.CopyN(io.Discard, r.Body, mostPassedOver)
	case err == nil && dec.More():
		err = errors.New("there is more than one value")
	}
	word := service.Word{}
	if err == nil {
		word, err = s.word()
	}
	switch {
	case err != nil:
		w.refuse(rw, wordUnsayable, http.StatusBadRequest, "it cannot be said: "+err.Error())
	case s.Instance != "" && s.Instance != id:
		w.refuse(rw, wordOfAnother, http.StatusForbidden, fmt.Sprintf("instance %s may speak of itself only", id))
	case !w.h.heed(id, word):
		w.refuse(rw, wordOfNobody, http.StatusUnauthorized, "no such instance runs here")
	default:
		rw.WriteHeader(http.StatusNoContent)
	}
}

// get tells the instance what it said last.
func (w *words) get(rw http.ResponseWriter, r *http.Request) {
	id, ok := w.who(rw, r)
	if !ok {
		return
	}
	w.h.mu.Lock()
	in := w.h.instances[id]
	var word service.Word
	if in != nil {
		word = in.word
	}
	w.h.mu.Unlock()
	ready := !word.Unready
	s := said{Instance: id, Ready: &ready, Draining: word.Draining, Dependencies: map[string]saidDependency{}}
	for _, d := range word.Dependencies {
		s.Dependencies[d.Name] = saidDependency{Degraded: float64(d.Degraded) / 1000, Detail: d.Detail}
	}
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(s); err != nil {
		w.log.Debug("an instance went away before it was answered", "instance", id, "error", err)
	}
}

// who is the instance that speaks, by its token.
func (w *words) who(rw http.ResponseWriter, r *http.Request) (id string, ok bool) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	id, _, _ = strings.Cut(token, ".")
	if !bearer || !hmac.Equal([]byte(token), []byte(w.token(id))) {
		w.refuse(rw, wordOfNobody, http.StatusUnauthorized, "say Authorization: Bearer and the value of "+envSelfKey)
		return "", false
	}
	return id, true
}

func (w *words) refuse(rw http.ResponseWriter, reason string, status int, text string) {
	w.discarded.WithLabelValues(reason).Inc()
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text+"\n") // who went away cannot be told
}

// heed takes an instance's word, and has the leader told. False says that no
// such instance runs.
func (h *Host) heed(id string, word service.Word) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.instances[id]
	if in == nil {
		return false
	}
	if !in.word.Equal(word) {
		in.word = word
		h.touchLocked(in)
	}
	return true
}
