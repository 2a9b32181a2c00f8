package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) {
	if takeLockAndWait() {
		return
	}
	goleak.VerifyTestMain(m)
}

// clock is a wall clock that a test sets.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newAuthority(t *testing.T, now func() time.Time) *Authority {
	t.Helper()
	a := must[*Authority](t)(OpenAuthority(filepath.Join(t.TempDir(), "authority"), AuthorityOptions{Now: now}))
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func newKeystore(t *testing.T, now func() time.Time) *Keystore {
	t.Helper()
	return must[*Keystore](t)(OpenKeystore(filepath.Join(t.TempDir(), "keys"), WithClock(now)))
}

func newRole(t *testing.T, a *Authority, role Role, name string, now func() time.Time) *Keystore {
	t.Helper()
	k := newKeystore(t, now)
	if err := a.Issue(k, ID{TrustDomain: a.TrustDomain(), Role: role, Name: name}); err != nil {
		t.Fatal(err)
	}
	return k
}

// plane is a control's socket: the guard over handlers that answer every
// procedure with who called it by what.
type plane struct {
	authority *Authority
	control   *Keystore
	addr      string
	refused   func(ID, string) bool
	serverNow *clock
	logs      *logs
}

type logs struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // has an element after each line
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.text = append(l.text, p...)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// await waits until the text is in the log.
func (l *logs) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !strings.Contains(l.String(), text) {
		select {
		case <-l.more:
		case <-deadline:
			t.Fatalf("the log does not say %q: %s", text, l)
		}
	}
}

func startPlane(t *testing.T, change func(*plane)) *plane {
	t.Helper()
	p := &plane{serverNow: newClock(), logs: &logs{more: make(chan struct{}, 1)}}
	p.authority = newAuthority(t, time.Now)
	p.control = newRole(t, p.authority, Control, "a", p.serverNow.now)
	if change != nil {
		change(p)
	}
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	p.addr = ln.Addr().String()
	cfg := p.control.ServerTLS(ServerOptions{Refused: p.refused})
	split := Splitter{Log: slog.New(slog.NewTextHandler(p.logs, nil))}
	roles, others := split.Split(ln, cfg)
	guard := Guard{Socket: SocketControl, Now: p.serverNow.now, Refused: p.refused}
	rpc := grpc.NewServer(grpc.Creds(ServerCredentials(nil)), grpc.UnaryInterceptor(guard.Unary),
		grpc.StreamInterceptor(guard.Stream), grpc.UnknownServiceHandler(echoStream))
	rpc.RegisterService(echoService(), nil)
	web := &http.Server{Handler: guard.HTTP(http.HandlerFunc(echoHTTP))}
	var running sync.WaitGroup
	running.Go(func() { expectEnd(t, rpc.Serve(roles), nil) })
	running.Go(func() { expectEnd(t, web.Serve(others), http.ErrServerClosed) })
	t.Cleanup(func() {
		rpc.Stop()
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		running.Wait()
	})
	return p
}

func expectEnd(t *testing.T, got, want error) {
	if !errors.Is(got, want) {
		t.Errorf("server ended with %v, not %v", got, want)
	}
}

// echoStream answers one message on any procedure by gRPC.
func echoStream(_ any, s grpc.ServerStream) error {
	var in wrapperspb.StringValue
	if err := s.RecvMsg(&in); err != nil {
		return err
	}
	return s.SendMsg(wrapperspb.String("grpc-go " + PeerFromContext(s.Context()).String()))
}

// echoService has one true unary procedure.
func echoService() *grpc.ServiceDesc {
	unary := func(_ any, ctx context.Context, dec func(any) error, icpt grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{FullMethod: "/" + procRenew}
		return icpt(ctx, in, info, func(ctx context.Context, _ any) (any, error) {
			return wrapperspb.String("grpc-go unary " + PeerFromContext(ctx).String()), nil
		})
	}
	return &grpc.ServiceDesc{
		ServiceName: "fairlead.v1.IdentityService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Renew", Handler: unary}},
	}
}

// echoHTTP answers any procedure by Connect, gRPC and gRPC-Web.
func echoHTTP(w http.ResponseWriter, r *http.Request) {
	connect.NewUnaryHandler(r.URL.Path, func(ctx context.Context, _ *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(wrapperspb.String("connect " + r.Proto + " " + PeerFromContext(ctx).String())), nil
	}).ServeHTTP(w, r)
}

func dialGRPC(t *testing.T, addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn := must[*grpc.ClientConn](t)(grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds)))
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func callGRPC(t *testing.T, conn *grpc.ClientConn, procedure string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, "/"+procedure, wrapperspb.String("x"), out)
	return out.GetValue(), err
}

func httpClient(t *testing.T, cfg *tls.Config, h2 bool) *http.Client {
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: h2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func callConnect(t *testing.T, c *http.Client, addr, procedure string, opts ...connect.ClientOption) (string, error) {
	t.Helper()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](c, "https://"+addr+"/"+procedure, opts...)
	res, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("x")))
	if err != nil {
		return "", err
	}
	return res.Msg.GetValue(), nil
}

// shakeOnce dials, asks for something and waits for the answer: a refusal
// arrives with the first read, not with the handshake.
func shakeOnce(addr string, cfg *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		return err
	}
	err = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err == nil {
		_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	}
	// A refusal may break the write; the read then says what it was.
	if _, rerr := conn.Read(make([]byte, 1)); rerr != nil || err != nil {
		err = errors.Join(rerr, err)
	}
	return errors.Join(err, conn.Close())
}

// answerOnce says one byte, and leaves the closing to the other side.
func answerOnce(conn net.Conn) error {
	_, err := conn.Write([]byte("x"))
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	return errors.Join(err, conn.Close())
}
