package resolver

import "errors"

// Why a pick is not made. They are given at once, wrapped in a [*PickError].
var (
	// ErrNotSubscribed: the service was named neither in Config.Services nor
	// to Subscribe.
	ErrNotSubscribed = errors.New("the service is not subscribed to")
	// ErrNoView: nothing was ever heard of the service, nothing of it is on
	// disk, and no fallback is configured.
	ErrNoView = errors.New("no view is held yet")
	// ErrNoEndpoint: the view says that no instance is to be used: the service
	// is deleted, or has none by intent.
	ErrNoEndpoint = errors.New("no endpoint is in rotation")
	// ErrNoMatch: there are endpoints, and none is as the options ask.
	ErrNoMatch = errors.New("no endpoint is as asked for")
	// ErrRetryBudget: the pick is a retry, and too many requests are retries.
	ErrRetryBudget = errors.New("the retry budget is spent")
)

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("the configuration does not do")

// PickError says of which service no endpoint was picked, and why.
type PickError struct {
	Service string
	// Err is one of ErrNotSubscribed, ErrNoView, ErrNoEndpoint, ErrNoMatch and
	// ErrRetryBudget.
	Err error
}

func (e *PickError) Error() string {
	return "cannot pick an instance of " + e.Service + ": " + e.Err.Error()
}

// Unwrap makes errors.Is(err, ErrNoView) true.
func (e *PickError) Unwrap() error { return e.Err }

// refusals of one service, made once: to refuse costs no allocation either.
type refusals struct {
	noView, noEndpoint, noMatch, budget *PickError
}

func refusalsOf(service string) refusals {
	return refusals{
		noView: &PickError{service, ErrNoView}, noEndpoint: &PickError{service, ErrNoEndpoint},
		noMatch: &PickError{service, ErrNoMatch}, budget: &PickError{service, ErrRetryBudget},
	}
}
