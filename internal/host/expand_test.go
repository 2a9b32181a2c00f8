package host

import (
	"strings"
	"testing"
)

var expandCases = []struct{ in, want string }{
	{"", ""},
	{"plain", "plain"},
	{"$(PORT)", "20001"},
	{"--listen=0.0.0.0:$(PORT)", "--listen=0.0.0.0:20001"},
	{"$(PORT)$(NAME)", "20001hello"},
	{"$(UNKNOWN)", "$(UNKNOWN)"},
	{"$$(PORT)", "$(PORT)"},
	{"$$$(PORT)", "$20001"},
	{"$$$$(PORT)", "$$(PORT)"},
	{"$PORT", "$PORT"},
	{"${PORT}", "${PORT}"},
	{"$(PORT", "$(PORT"},
	{"$", "$"},
	{"a$", "a$"},
	{"$$", "$"},
	{"$()", "$()"},
	{"$(NESTED)", "$(PORT)"}, // what was put in is not expanded again
	{"$(A)$(EMPTY)b", "$(A)b"},
	{"preis 5$ netto", "preis 5$ netto"},
	{"$(P$(PORT))", "$(P$(PORT))"}, // the name ends at the first parenthesis, as in Kubernetes
}

var expandEnv = map[string]string{"PORT": "20001", "NAME": "hello", "NESTED": "$(PORT)", "EMPTY": ""}

func TestArgumentsAreExpandedAsKubernetesDoes(t *testing.T) {
	for _, c := range expandCases {
		if got := expand(c.in, expandEnv); got != c.want {
			t.Errorf("expand(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzExpandChangesOnlyWhatItNames(f *testing.F) {
	for _, c := range expandCases {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if got := expand(in, nil); !strings.Contains(in, "$$") && got != in {
			t.Errorf("expand(%q) = %q without any variable", in, got)
		}
		if got := expand(strings.ReplaceAll(in, "$", "$$"), expandEnv); got != in {
			t.Errorf("escaped %q came back as %q", in, got)
		}
	})
}
