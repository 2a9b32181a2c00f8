package fault

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The exact code and the hint travel as a google.rpc.ErrorInfo detail, which
// every gRPC and Connect client can read; the status code alone would merge
// superseded with needs_operator.
const (
	detailDomain = "fairlead"
	detailHint   = "hint"
)

// ToConnect maps err for a Connect handler. A nil err stays nil.
func ToConnect(err error) *connect.Error {
	if err == nil {
		return nil
	}
	e := find(err)
	out := connect.NewError(wireCode(err, e.Code), errors.New(e.Message))
	// The detail is a small message of strings: it always marshals.
	if d, derr := connect.NewErrorDetail(e.info()); derr == nil {
		out.AddDetail(d)
	}
	return out
}

// FromConnect maps what a Connect client returned back to an error with code
// and hint. What carries no detail of ours is mapped by its status code. An
// err that is no Connect error gets the code that [CodeOf] gives it.
func FromConnect(err error) error {
	if err == nil {
		return nil
	}
	return find(err)
}

// ToGRPC maps err to a gRPC status error. A nil err stays nil.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	e := find(err)
	st := status.New(codes.Code(wireCode(err, e.Code)), e.Message)
	if with, derr := st.WithDetails(e.info()); derr == nil {
		st = with
	}
	return st.Err()
}

// FromGRPC maps what a gRPC client returned back, as [FromConnect] does.
func FromGRPC(err error) error { return FromConnect(err) }

func (e *Error) info() *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: detailDomain}
	if e.Hint != "" {
		info.Metadata = map[string]string{detailHint: e.Hint}
	}
	return info
}

// wireCode is the status of a code. Connect and gRPC share their numbers.
func wireCode(err error, c Code) connect.Code {
	if c == Timeout && errors.Is(err, context.Canceled) {
		return connect.CodeCanceled
	}
	switch c {
	case Invalid:
		return connect.CodeInvalidArgument
	case NotFound:
		return connect.CodeNotFound
	case Conflict:
		return connect.CodeAborted
	case Exists:
		return connect.CodeAlreadyExists
	case Unavailable:
		return connect.CodeUnavailable
	case Unknown:
		return connect.CodeUnknown
	case Forbidden:
		return connect.CodePermissionDenied
	case Unauthenticated:
		return connect.CodeUnauthenticated
	case Exhausted:
		return connect.CodeResourceExhausted
	case Timeout:
		return connect.CodeDeadlineExceeded
	case Superseded, NeedsOperator:
		return connect.CodeFailedPrecondition
	default:
		return connect.CodeInternal
	}
}

// codeOfWire is the way back for an error without a detail of ours. A bare
// failed precondition is something that the caller must change: invalid.
func codeOfWire(c connect.Code) Code {
	switch c {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange, connect.CodeFailedPrecondition, connect.CodeUnimplemented:
		return Invalid
	case connect.CodeNotFound:
		return NotFound
	case connect.CodeAborted:
		return Conflict
	case connect.CodeAlreadyExists:
		return Exists
	case connect.CodeUnavailable:
		return Unavailable
	case connect.CodeUnknown, connect.CodeDataLoss:
		return Unknown
	case connect.CodePermissionDenied:
		return Forbidden
	case connect.CodeUnauthenticated:
		return Unauthenticated
	case connect.CodeResourceExhausted:
		return Exhausted
	case connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return Timeout
	default:
		return Internal
	}
}

// fromWire reads a Connect error or a gRPC status; nil when err is neither.
func fromWire(err error) *Error {
	var ce *connect.Error
	if errors.As(err, &ce) {
		out := &Error{Code: codeOfWire(ce.Code()), Message: ce.Message(), cause: wireCause(err, ce.Code())}
		for _, d := range ce.Details() {
			if v, verr := d.Value(); verr == nil {
				out.readDetail(v)
			}
		}
		return out
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return nil
	}
	code := connect.Code(st.Code())
	out := &Error{Code: codeOfWire(code), Message: st.Message(), cause: wireCause(err, code)}
	for _, d := range st.Details() {
		out.readDetail(d)
	}
	return out
}

func (e *Error) readDetail(v any) {
	info, ok := v.(*errdetails.ErrorInfo)
	if !ok || info.GetDomain() != detailDomain || !Code(info.GetReason()).Known() {
		return
	}
	e.Code, e.Hint = Code(info.GetReason()), info.GetMetadata()[detailHint]
}

// wireCause keeps errors.Is(err, context.Canceled) true across the wire.
func wireCause(err error, c connect.Code) error {
	switch {
	case c == connect.CodeCanceled && !errors.Is(err, context.Canceled):
		return errors.Join(context.Canceled, err)
	case c == connect.CodeDeadlineExceeded && !errors.Is(err, context.DeadlineExceeded):
		return errors.Join(context.DeadlineExceeded, err)
	default:
		return err
	}
}
