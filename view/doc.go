// Package view is the pure half of everything below the assembler: a view, its
// versions, its deltas, its digest, and the guards that a client keeps. It has
// no clock, no I/O and no goroutine, and imports the standard library only.
// The first view is the route table that gateways hold; read [Table] first.
package view
