package cli

import (
	"strings"
	"testing"
)

func TestLinesThatComeAgainAreLeftOutAndNewOnesAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		seen, next string
		drop       int
	}{
		"all again":                   {"a b c", "a b c", 3},
		"and new ones":                {"a b c", "a b c d e", 3},
		"the end of what was seen":    {"a b c", "b c d", 2},
		"what was before that too":    {"b c", "a b c d", 3},
		"none of it":                  {"a b c", "d e", 0},
		"alike, one more":             {"a a", "a a a", 2},
		"alike, as many as are shown": {"a a a a", "a a", 2},
		"a part that looks the same":  {"a b a b", "a b a b a", 4},
		"nothing seen":                {"", "a b", 0},
		"nothing next":                {"a b", "", 0},
	} {
		if got := overlap(strings.Fields(c.seen), strings.Fields(c.next)); got != c.drop {
			t.Errorf("%s: %d lines are left out of %q after %q, want %d", name, got, c.next, c.seen, c.drop)
		}
	}
}
