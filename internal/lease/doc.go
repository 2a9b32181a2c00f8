// Package lease is the waiting room of a gateway, as a pure state machine: who
// waits, which instances may answer, how many credits each has, and who is
// granted what. It has no clock, goroutine, lock or I/O: every input is a
// method that returns the commands it caused, and the caller carries them out
// in order. Read [Queue] first, then testdata/*.txt, which is the specification.
package lease
