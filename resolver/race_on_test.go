//go:build race

package resolver

// The race detector makes each several times as long, and finds what it finds
// in fewer.
const reconnections = 1500
