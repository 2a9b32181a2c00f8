//go:build !race

package resolver

const reconnections = 10_000
