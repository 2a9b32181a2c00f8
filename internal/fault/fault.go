// Package fault holds the one closed set of error codes, and their way over
// the wire and back, so that errors.Is(err, fault.NotFound) is true in the
// command line when it was true in the control plane. It decides nothing about
// which error a rule gives. Read [Error] and [Code] first.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Code is one of the closed set. A Code is itself an error, so that it serves
// as the sentinel of its kind: errors.Is(err, fault.Conflict).
type Code string

// The closed set.
const (
	Invalid         Code = "invalid"         // refused input; repeating it is useless
	NotFound        Code = "not_found"       // what was named does not exist
	Conflict        Code = "conflict"        // something else stands; read again
	Exists          Code = "exists"          // what was to be created exists already
	Unavailable     Code = "unavailable"     // nothing was done; try again later
	Unknown         Code = "unknown"         // it is not known whether it was done
	Forbidden       Code = "forbidden"       // known, and not allowed to
	Unauthenticated Code = "unauthenticated" // not known who asks
	Exhausted       Code = "exhausted"       // a bound, a disk or a rate is reached
	Timeout         Code = "timeout"         // the wait ended, not necessarily the work
	Superseded      Code = "superseded"      // a later intent won
	NeedsOperator   Code = "needs_operator"  // nobody but a person can go on
	Internal        Code = "internal"        // a defect of ours
)

// Codes returns the closed set, in the order of its declaration.
func Codes() []Code {
	return []Code{
		Invalid, NotFound, Conflict, Exists, Unavailable, Unknown, Forbidden,
		Unauthenticated, Exhausted, Timeout, Superseded, NeedsOperator, Internal,
	}
}

// Error makes a Code the sentinel of its kind.
func (c Code) Error() string { return string(c) }

// Known says whether c is one of the closed set.
func (c Code) Known() bool {
	for _, k := range Codes() {
		if c == k {
			return true
		}
	}
	return false
}

// Error is an error with a code and, where there is something that the reader
// can do, a hint that says what.
type Error struct {
	Code    Code
	Message string
	Hint    string // empty when there is nothing to advise
	cause   error  // what the format wrapped with %w; does not cross the wire
}

// New makes an error of the code; hint may be empty. Format takes %w.
func New(code Code, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Hint: hint, cause: err}
}

// Wrap gives err a code and keeps it in the chain. A nil err stays nil.
func Wrap(code Code, hint string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Message: err.Error(), Hint: hint, cause: err}
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives what was wrapped when the error was made.
func (e *Error) Unwrap() error { return e.cause }

// Is is true for the sentinel of the error's own code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code of err: the outermost [Error] or [Code] of its
// chain; what came over a wire by its status; an ended or cancelled context as
// Timeout; everything else is Internal. It is empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return find(err).Code
}

// HintOf returns the hint of the outermost [Error] in err, or nothing.
func HintOf(err error) string {
	if err == nil {
		return ""
	}
	return find(err).Hint
}

// find reads err as an Error whose message is err's own, whole.
func find(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return &Error{Code: own.Code, Message: err.Error(), Hint: own.Hint, cause: err}
	}
	var code Code
	if errors.As(err, &code) {
		return &Error{Code: code, Message: err.Error(), cause: err}
	}
	if remote := fromWire(err); remote != nil {
		return remote
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &Error{Code: Timeout, Message: err.Error(), cause: err}
	}
	return &Error{Code: Internal, Message: err.Error(), cause: err}
}
