package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// Guard asks [May] before every call on one socket, and puts the [Peer] into
// the context of what it lets through.
type Guard struct {
	Socket Socket
	// Now is time.Now when nil. A connection can outlive its certificate.
	Now func() time.Time
	// Refused is the refusal list, asked for every call, so that it reaches
	// open connections too. Nil refuses nobody.
	Refused func(id ID, serial string) bool
}

// LocalMiddleware is the guard of a handler on a UNIX socket: its peer is
// LocalOperator(name).
func LocalMiddleware(name string, next http.Handler) http.Handler {
	guard := Guard{Socket: SocketLocal}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.serve(w, r, LocalOperator(name), next)
	})
}

// HTTP guards a handler that is reached by TLS.
func (g Guard) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			Refuse(w, r, fault.New(fault.Unauthenticated, "", "this API is served by TLS only"))
			return
		}
		p, err := PeerAt(*r.TLS, g.now())
		if err != nil {
			Refuse(w, r, fault.Wrap(fault.Unauthenticated, "", err))
			return
		}
		g.serve(w, r, p, next)
	})
}

func (g Guard) serve(w http.ResponseWriter, r *http.Request, p Peer, next http.Handler) {
	if err := g.check(r.URL.Path, p); err != nil {
		Refuse(w, r, err)
		return
	}
	next.ServeHTTP(w, r.WithContext(ContextWithPeer(r.Context(), p)))
}

// Refuse answers a request with an error in the request's own protocol:
// Connect, gRPC or plain HTTP.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	writer := connect.NewErrorWriter()
	if writer.IsSupported(r) {
		// The peer that went away meanwhile cannot be told.
		_ = writer.Write(w, r, fault.ToConnect(err))
		return
	}
	status := http.StatusForbidden
	switch {
	case errors.Is(err, fault.Unauthenticated):
		status = http.StatusUnauthorized
	case errors.Is(err, fault.NotFound):
		status = http.StatusNotFound
	}
	text := err.Error()
	if hint := fault.HintOf(err); hint != "" {
		text += "\n  " + hint
	}
	http.Error(w, text, status)
}

// Unary is a grpc.UnaryServerInterceptor.
func (g Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	return handler(ctx, req)
}

// Stream is a grpc.StreamServerInterceptor.
func (g Guard) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := g.admit(ss.Context(), info.FullMethod)
	if err != nil {
		return fault.ToGRPC(err)
	}
	return handler(srv, &knownStream{ServerStream: ss, ctx: ctx})
}

func (g Guard) admit(ctx context.Context, procedure string) (context.Context, error) {
	p, err := g.grpcPeer(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unauthenticated, "", err)
	}
	if err := g.check(procedure, p); err != nil {
		return nil, err
	}
	return ContextWithPeer(ctx, p), nil
}

func (g Guard) grpcPeer(ctx context.Context) (Peer, error) {
	remote, ok := peer.FromContext(ctx)
	if !ok {
		return Peer{}, errNotShaken
	}
	info, ok := remote.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Peer{}, errNotShaken
	}
	return PeerAt(info.State, g.now())
}

// check gives the refusal its code: who is not known is told so, and who asks
// for what nobody may call learns what there is.
func (g Guard) check(procedure string, p Peer) error {
	if g.Refused != nil && !p.Anonymous() && g.Refused(p.ID, p.Serial) {
		return fault.Wrap(fault.Forbidden, "an operator revoked it (fairlead identity list), for good: give whoever uses it another, by another name", fmt.Errorf("%w: %s, serial %s", ErrRefused, p.ID, p.Serial))
	}
	err := May(g.Socket, procedure, p)
	var forbidden *ForbiddenError
	if !errors.As(err, &forbidden) {
		return err
	}
	if forbidden.Who == Nobody {
		return fault.Wrap(fault.Unauthenticated, forbidden.Hint(), err)
	}
	if !named(procedure) {
		return fault.New(fault.NotFound, allowedText(g.Socket, forbidden.Who), "there is nothing at %q", procedure)
	}
	return fault.Wrap(fault.Forbidden, forbidden.Hint(), err)
}

func (g Guard) now() time.Time {
	if g.Now == nil {
		return time.Now()
	}
	return g.Now()
}

type knownStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *knownStream) Context() context.Context { return s.ctx }
