package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
	"github.com/fairlead-platform/fairlead/view"
)

// eachStore runs a test over the memory store and SQLite.
func eachStore(t *testing.T, test func(*testing.T, *world)) {
	t.Run("memory", func(t *testing.T) { test(t, newWorld(t, memory.Open(memory.Options{}))) })
	t.Run("sqlite", func(t *testing.T) { test(t, newWorld(t, sqliteStore(t))) })
}

func sqliteStore(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// world is an API behind a real server, with a world that the test sets.
type world struct {
	t        *testing.T
	ctx      context.Context
	st       store.Store
	api      *API
	url      string
	services fairleadv1connect.ServiceAPIServiceClient
	admin    fairleadv1connect.AdminAPIServiceClient
	bucket   *blobs

	mu       sync.Mutex
	hosts    []service.HostState
	gateways []service.GatewayState
	retired  []string
	stops    []service.StopWait
	retryAt  time.Time
	alarms   []string // of each service
	lines    []service.LogLine
}

func newWorld(t *testing.T, st store.Store) *world {
	authority, err := identity.OpenAuthority(t.TempDir(), identity.AuthorityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: st, bucket: &blobs{held: map[string]blob{}}}
	w.api = New(Config{
		Store: st, Bucket: w.bucket, Hosts: hostReader{w}, Gateways: gatewayReader{w}, Logs: w, Leader: w, Authority: authority,
		NewID: func() string { return ulid.Make().String() }, Rand: rand.Reader, MaxArtifact: 1 << 20,
	})
	srv := httptest.NewServer(identity.LocalMiddleware("ann", w.api.Handler()))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(func() {
		cancel()
		srv.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if err := authority.Close(); err != nil {
			t.Error(err)
		}
	})
	w.ctx, w.url = ctx, srv.URL
	w.services = fairleadv1connect.NewServiceAPIServiceClient(srv.Client(), srv.URL)
	w.admin = fairleadv1connect.NewAdminAPIServiceClient(srv.Client(), srv.URL)
	return w
}

type hostReader struct{ w *world }

func (r hostReader) States() []service.HostState {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.w.hosts
}

type gatewayReader struct{ w *world }

func (r gatewayReader) States() []service.GatewayState {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.w.gateways
}

func (w *world) Logs(_ context.Context, q service.LogQuery, emit func([]service.LogLine) error) error {
	if q.Tail != 100 {
		return fmt.Errorf("tail is %d", q.Tail)
	}
	return emit(w.lines)
}

func (w *world) Leading() bool                   { return true }
func (w *world) Epoch() view.Epoch               { return view.Epoch{Incarnation: w.st.Incarnation(), Number: 3} }
func (w *world) RetryAt(string) time.Time        { return w.retryAt }
func (w *world) Stops(string) []service.StopWait { return w.stops }
func (w *world) Alarms(s string) []string {
	if s == "" {
		return []string{"disk is nearly full"}
	}
	return w.alarms
}

func (w *world) RetireGateway(_ context.Context, name string) error {
	w.retired = append(w.retired, name)
	return nil
}

func (w *world) DrainHost(ctx context.Context, name string, drain bool) error {
	doc, err := w.st.Get(ctx, store.Key{Kind: service.KindHost, Name: name})
	if err != nil {
		return err
	}
	var h service.Host
	if err := json.Unmarshal(doc.Body, &h); err != nil {
		return err
	}
	h.Draining = drain
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = w.st.Apply(ctx, store.Apply{ID: fmt.Sprint("drain ", drain, doc.Version), Writes: []store.Write{{Key: doc.Key, Expect: doc.Version, Body: body}}})
	return err
}

func (w *world) RetireHost(_ context.Context, name string) error {
	w.retired = append(w.retired, "host "+name)
	return nil
}

// put writes a document as the control role would.
func (w *world) put(kind, name string, value any) uint64 {
	w.t.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := w.st.Apply(w.ctx, store.Apply{ID: ulid.Make().String(), Writes: []store.Write{{Key: store.Key{Kind: kind, Name: name}, Any: true, Body: body}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Sequence
}

func (w *world) erase(kind, name string) {
	w.t.Helper()
	if _, err := w.st.Apply(w.ctx, store.Apply{ID: ulid.Make().String(), Writes: []store.Write{{Key: store.Key{Kind: kind, Name: name}, Any: true, Delete: true}}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deploy(m *fairleadv1.DeployRequest) (*fairleadv1.DeployResponse, error) {
	if m.Template == nil {
		m.Template = &fairleadv1.Template{Command: []string{"python3"}}
	}
	resp, err := w.services.Deploy(w.ctx, connect.NewRequest(m))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func (w *world) must(m *fairleadv1.DeployRequest) *fairleadv1.DeployResponse {
	w.t.Helper()
	resp, err := w.deploy(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// everything is all that the store holds, to show that nothing changed.
func (w *world) everything() string {
	w.t.Helper()
	docs, _, err := w.st.List(w.ctx, "")
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, "%s %d %s\n", d.Key, d.Version, d.Body)
	}
	return b.String()
}

func record(generation int32, state saga.State, steps ...saga.Step) saga.Record {
	return saga.Record{ID: fmt.Sprint("hello-", generation), Kind: "deploy", Owner: "hello", Subject: "hello-00001", Generation: generation, Attempt: 1, State: state, Steps: steps, Started: time.Unix(int64(generation), 0)}
}

// blobs is a bucket in memory.
type blobs struct {
	mu   sync.Mutex
	held map[string]blob // :: name → blob
}

type blob struct {
	body []byte
	at   time.Time
}

func (b *blobs) Put(_ context.Context, name string, r io.Reader, ifAbsent bool) (bucket.Info, error) {
	held := func() bool {
		_, ok := b.held[name]
		return ok && ifAbsent
	}
	b.mu.Lock()
	there := held()
	b.mu.Unlock()
	if there {
		return bucket.Info{}, bucket.ErrExists // before it has read anything
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return bucket.Info{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if held() {
		return bucket.Info{}, bucket.ErrExists
	}
	b.held[name] = blob{body, time.Now()}
	return bucket.Info{Name: name, Size: int64(len(body))}, nil
}

func (b *blobs) Open(_ context.Context, name string) (io.ReadCloser, bucket.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[name]
	if !ok {
		return nil, bucket.Info{}, bucket.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(h.body)), bucket.Info{Name: name}, nil
}

func (b *blobs) Stat(ctx context.Context, name string) (bucket.Info, error) {
	_, info, err := b.Open(ctx, name)
	return info, err
}

func (b *blobs) List(_ context.Context, prefix string) ([]bucket.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []bucket.Info
	for n, h := range b.held {
		if strings.HasPrefix(n, prefix) {
			out = append(out, bucket.Info{Name: n, Size: int64(len(h.body)), Modified: h.at})
		}
	}
	return out, nil
}

func (b *blobs) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, name)
	return nil
}
