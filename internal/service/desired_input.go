package service

import "fmt"

// InputError says that what someone wants cannot be accepted, and what to do.
// Refused input changes nothing.
type InputError struct {
	Problem string // e.g. `service name "Hello" is not a DNS label`
	Hint    string // what to do instead; may be empty
}

func (e *InputError) Error() string { return e.Problem }

// refuse makes an InputError; hint may be empty.
func refuse(hint, format string, args ...any) error {
	return &InputError{Problem: fmt.Sprintf(format, args...), Hint: hint}
}
