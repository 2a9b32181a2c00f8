package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const procedure = "/fairlead.v1.ServiceAPIService/Deploy"

// serve answers every call with err, by Connect and all that it speaks.
func serve(t *testing.T, err error) (*http.Client, string) {
	t.Helper()
	handler := connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return nil, ToConnect(err)
	})
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c := s.Client()
	t.Cleanup(c.CloseIdleConnections)
	return c, s.URL + procedure
}

func call(t *testing.T, c *http.Client, url string, opts ...connect.ClientOption) error {
	t.Helper()
	_, err := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](c, url, opts...).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
	return FromConnect(err)
}

var protocols = map[string][]connect.ClientOption{
	"connect": nil, "connect JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
}

func checkArrived(t *testing.T, how string, err error, code Code) {
	t.Helper()
	if !errors.Is(err, code) || CodeOf(err) != code || HintOf(err) != "try “this”" || err.Error() != "cannot deploy \"x\": disk" {
		t.Errorf("%s, %s: arrived as %q, hint %q, code %q", how, code, err, HintOf(err), CodeOf(err))
	}
	for _, other := range Codes() {
		if other != code && errors.Is(err, other) {
			t.Errorf("%s: %s is %s too", how, code, other)
		}
	}
}

func TestEveryCodeAndItsHintCrossTheWireByEveryProtocol(t *testing.T) {
	for _, code := range Codes() {
		sent := fmt.Errorf("cannot deploy %q: %w", "x", New(code, "try “this”", "disk"))
		c, url := serve(t, sent)
		for how, opts := range protocols {
			checkArrived(t, how, call(t, c, url, opts...), code)
		}
		checkArrived(t, "grpc-go", overGRPC(t, sent), code)
	}
}

// overGRPC is the way by grpc-go on both ends.
func overGRPC(t *testing.T, err error) error {
	t.Helper()
	ln, lerr := net.Listen("tcp", "127.0.0.1:0")
	if lerr != nil {
		t.Fatal(lerr)
	}
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return ToGRPC(err) }))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	conn, cerr := grpc.NewClient("passthrough:///"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if cerr != nil {
		t.Fatal(cerr)
	}
	got := FromGRPC(conn.Invoke(t.Context(), procedure, wrapperspb.String(""), new(wrapperspb.StringValue)))
	cerr = conn.Close()
	srv.Stop()
	if err := errors.Join(cerr, <-ended); err != nil {
		t.Error(err)
	}
	return got
}

func TestTheStatusOnTheWireIsTheCustomaryOne(t *testing.T) {
	for code, want := range map[Code]connect.Code{
		Invalid: connect.CodeInvalidArgument, NotFound: connect.CodeNotFound, Conflict: connect.CodeAborted, Exists: connect.CodeAlreadyExists,
		Unavailable: connect.CodeUnavailable, Unknown: connect.CodeUnknown, Forbidden: connect.CodePermissionDenied,
		Unauthenticated: connect.CodeUnauthenticated, Exhausted: connect.CodeResourceExhausted, Timeout: connect.CodeDeadlineExceeded,
		Superseded: connect.CodeFailedPrecondition, NeedsOperator: connect.CodeFailedPrecondition, Internal: connect.CodeInternal,
	} {
		err := New(code, "", "x")
		if got := ToConnect(err).Code(); got != want {
			t.Errorf("%s is %s", code, got)
		}
		if got := status.Code(ToGRPC(err)); got != codes.Code(want) {
			t.Errorf("%s is %s by gRPC", code, got)
		}
	}
}

func TestAPlainHTTPClientSeesCodeAndMessage(t *testing.T) {
	c, url := serve(t, New(NotFound, "", "no service hello"))
	res, err := c.Post(url, "application/json", strings.NewReader(`""`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if cerr := res.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if res.StatusCode != http.StatusNotFound || !strings.Contains(string(body), `"code":"not_found","message":"no service hello"`) {
		t.Errorf("%s: %s", res.Status, body)
	}
}

func TestWhatIsNoErrorOfOursGetsACodeToo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{errors.New("x"), Internal},
		{io.EOF, Internal},
		{NotFound, NotFound},
		{fmt.Errorf("x: %w", Exists), Exists},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), Timeout},
		{context.Canceled, Timeout},
		{connect.NewError(connect.CodeUnavailable, io.EOF), Unavailable},
		{fmt.Errorf("x: %w", connect.NewError(connect.CodeUnimplemented, io.EOF)), Invalid},
		{status.Error(codes.PermissionDenied, "x"), Forbidden},
		{fmt.Errorf("x: %w", status.Error(codes.ResourceExhausted, "x")), Exhausted},
		{Wrap(Conflict, "", NotFound), Conflict}, // the outermost
		{Wrap(Conflict, "", nil), ""},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	for _, code := range []connect.Code{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 99} {
		if got := codeOfWire(code); !got.Known() {
			t.Errorf("%s is %q", code, got)
		}
	}
}

func TestNilStaysNil(t *testing.T) {
	if ToConnect(nil) != nil || FromConnect(nil) != nil || ToGRPC(nil) != nil || FromGRPC(nil) != nil || Wrap(Internal, "", nil) != nil || HintOf(nil) != "" {
		t.Error("nil became an error")
	}
}

func TestWhatWasWrappedIsStillFound(t *testing.T) {
	err := New(Unavailable, "", "cannot read: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, Unavailable) || errors.Is(err, Internal) {
		t.Error(err)
	}
	var e *Error
	if !errors.As(fmt.Errorf("x: %w", Wrap(Invalid, "h", io.EOF)), &e) || e.Code != Invalid || e.Hint != "h" || !errors.Is(e, io.EOF) {
		t.Errorf("%+v", e)
	}
}

func TestACancelledCallIsOneOnTheOtherSideToo(t *testing.T) {
	for sent, want := range map[error]error{context.Canceled: context.Canceled, context.DeadlineExceeded: context.DeadlineExceeded} {
		c, url := serve(t, fmt.Errorf("waiting: %w", sent))
		if got := call(t, c, url); !errors.Is(got, want) || !errors.Is(got, Timeout) {
			t.Errorf("%v arrived as %v", sent, got)
		}
		if got := overGRPC(t, sent); !errors.Is(got, want) || !errors.Is(got, Timeout) {
			t.Errorf("%v arrived by gRPC as %v", sent, got)
		}
	}
}

func TestADetailThatIsNotOursChangesNothing(t *testing.T) {
	e := &Error{Code: Conflict}
	e.readDetail((&Error{Code: "king"}).info())
	e.readDetail(wrapperspb.String("x"))
	foreign := (&Error{Code: NotFound}).info()
	foreign.Domain = "elsewhere"
	e.readDetail(foreign)
	if e.Code != Conflict {
		t.Errorf("%q", e.Code)
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	for how, opts := range protocols {
		if err := call(t, http.DefaultClient, "http://"+ln.Addr().String()+procedure, opts...); !errors.Is(err, Unavailable) {
			t.Errorf("%s: %v", how, err)
		}
	}
}
