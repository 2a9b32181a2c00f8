package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

type workloadKey struct{}

// workloadOf is who asks; empty is the agent itself.
func workloadOf(ctx context.Context) string {
	w, _ := ctx.Value(workloadKey{}).(string)
	return w
}

// known is what a connection shows of its other end.
type known struct {
	workload string
	err      error
}

type knownKey struct{}

// SocketContext is an http.Server's ConnContext on a UNIX socket: who dialled
// is known by the user of its process.
func (a *Agent) SocketContext(ctx context.Context, c net.Conn) context.Context {
	workload, err := a.userOf(c)
	return context.WithValue(ctx, knownKey{}, known{workload, err})
}

func (a *Agent) userOf(c net.Conn) (string, error) {
	sc, ok := c.(interface{ NetConn() net.Conn }) // what watches a listener may stand before it
	for ok {
		c = sc.NetConn()
		sc, ok = c.(interface{ NetConn() net.Conn })
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "", fault.New(fault.Internal, "", "a %T is no UNIX socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("cannot look at the socket: %w", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || cerr != nil {
		return "", fmt.Errorf("cannot tell who dialled the socket: %w", errors.Join(err, cerr))
	}
	if a.cfg.Workloads == nil {
		return fmt.Sprintf("uid-%d", cred.Uid), nil
	}
	if w, is := a.cfg.Workloads[cred.Uid]; is {
		return w, nil
	}
	return "", fault.New(fault.Unauthenticated, fmt.Sprintf("start the agent with --workload NAME=%d too", cred.Uid), "user %d is no workload of this agent", cred.Uid)
}

// OnSocket serves the local API where [Agent.SocketContext] says who asks.
func (a *Agent) OnSocket() http.Handler {
	return a.handler(func(r *http.Request) (string, error) {
		k, ok := r.Context().Value(knownKey{}).(known)
		if !ok {
			return "", fault.New(fault.Internal, "", "who asks is not known")
		}
		return k.workload, k.err
	})
}

// OnPort serves it on a loopback port, where each request shows the token of
// its workload.
func (a *Agent) OnPort() http.Handler {
	return a.handler(func(r *http.Request) (string, error) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return "", fault.New(fault.Unauthenticated, "send `Authorization: Bearer TOKEN`, with the token of the workload", "no token was shown")
		}
		shown, found, workload := sha256.Sum256([]byte(token)), false, ""
		for t, w := range a.cfg.Tokens { // all of them, so that the time tells nothing
			sum := sha256.Sum256([]byte(t))
			if subtle.ConstantTimeCompare(sum[:], shown[:]) == 1 {
				found, workload = true, w
			}
		}
		if !found {
			return "", fault.New(fault.Unauthenticated, "", "the token is of no workload of this agent")
		}
		return workload, nil
	})
}

// handler serves the API: by Connect, gRPC and JSON under the names of its
// methods, and by short paths for programs that know neither.
func (a *Agent) handler(who func(*http.Request) (string, error)) http.Handler {
	mux := http.NewServeMux()
	opts := []connect.HandlerOption{connect.WithInterceptors(faults{a}), connect.WithReadMaxBytes(8 << 20)}
	mux.Handle(fairleadv1connect.NewAgentServiceHandler(a, opts...))
	mux.Handle(fairleadv1connect.NewResolveServiceHandler(a, opts...))
	mux.HandleFunc("GET /v1/resolve/{service}", a.getResolve)
	mux.HandleFunc("GET /v1/pick/{service}", a.getPick)
	mux.HandleFunc("POST /v1/outcomes", a.postOutcomes)
	mux.HandleFunc("GET /v1/status", a.getStatus)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workload, err := who(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		if err := a.bound.enter(workload); err != nil {
			a.count("any", err)
			refuse(w, r, err)
			return
		}
		defer a.bound.leave(workload)
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), workloadKey{}, workload)))
	})
}

// refuse answers in the protocol of the request.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if writer := connect.NewErrorWriter(); !strings.HasPrefix(r.URL.Path, "/v1/") && writer.IsSupported(r) {
		_ = writer.Write(w, r, fault.ToConnect(err)) // who went away cannot be told
		return
	}
	fail(w, err)
}

// faults gives every error its code on the wire, and counts answers.
type faults struct{ a *Agent }

func (f faults) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		procedure := req.Spec().Procedure
		f.a.count(procedure[strings.LastIndex(procedure, "/")+1:], err)
		if err != nil {
			return nil, fault.ToConnect(err)
		}
		return resp, nil
	}
}

func (f faults) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (f faults) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (a *Agent) count(what string, err error) {
	code := "ok"
	if err != nil {
		code = string(fault.CodeOf(err))
	}
	a.metrics.requests.WithLabelValues(what, code).Inc()
}

// reply answers a short path.
func (a *Agent) reply(w http.ResponseWriter, what string, m proto.Message, err error) {
	a.count(what, err)
	if err != nil {
		fail(w, err)
		return
	}
	body, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // who went away cannot be told
}

// fail says what is wrong: {"code", "error", "hint"}.
func fail(w http.ResponseWriter, err error) {
	code := fault.CodeOf(err)
	status, known := map[fault.Code]int{
		fault.Invalid: http.StatusBadRequest, fault.Unauthenticated: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
		fault.NotFound: http.StatusNotFound, fault.Exhausted: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable,
	}[code]
	if !known {
		status = http.StatusInternalServerError
	}
	body, merr := json.Marshal(map[string]string{"code": string(code), "error": err.Error(), "hint": fault.HintOf(err)})
	if merr != nil {
		body = []byte(`{"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// mostBody of a report, in bytes.
const mostBody = 4 << 20

func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Invalid, "", "the report cannot be read: %w", err)
	case len(body) > mostBody:
		return nil, fault.New(fault.Invalid, "send it in parts", "the report is longer than %d bytes", mostBody)
	}
	return body, nil
}
