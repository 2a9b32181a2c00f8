package eligibility

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the scripts' output; commit it only if you understand what changed it")

// TestTheFoldDoesWhatItsScriptsSay runs testdata/*.txt. A line of input is
// FROM[-TO][/EVERY] WHAT; seconds without a line are ticks without evidence.
func TestTheFoldDoesWhatItsScriptsSay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Files) != 2 {
				t.Fatalf("a script has the sections input and output; this one has %d", len(a.Files))
			}
			s := parseScript(t, string(a.Files[0].Data))
			got := s.run()
			if sparse := s.runSparse(); sparse != got {
				t.Errorf("judged only when due, it decides otherwise:\n%s\nthan judged each second:\n%s", sparse, got)
			}
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(a.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

type script struct {
	contract Contract
	ticks    map[int64]*Evidence // :: second → what came in it
	facts    map[int64]Facts     // :: second → what holds from then on
	explain  map[int64]bool
	end      int64
}

func parseScript(t *testing.T, text string) *script {
	s := &script{contract: Default(), ticks: map[int64]*Evidence{}, facts: map[int64]Facts{}, explain: map[int64]bool{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.line(words); err != nil {
			t.Fatalf("input line %d: %q: %v", i+1, line, err)
		}
	}
	if err := s.contract.Check(); err != nil {
		t.Fatalf("the script's contract: %v", err)
	}
	return s
}

func (s *script) line(words []string) error {
	if words[0] == "contract" {
		return s.terms(words[1:])
	}
	from, to, every, err := span(words[0])
	if err != nil {
		return err
	}
	s.end = max(s.end, to)
	for at := from; at <= to; at += every {
		e := s.ticks[at]
		if e == nil {
			e = &Evidence{}
			s.ticks[at] = e
		}
		if err := s.what(e, at, words[1:]); err != nil {
			return err
		}
	}
	return nil
}

func span(word string) (from, to, every int64, err error) {
	word, step, _ := strings.Cut(word, "/")
	first, last, ranged := strings.Cut(word, "-")
	if from, err = strconv.ParseInt(first, 10, 64); err != nil {
		return
	}
	to, every = from, 1
	if ranged {
		if to, err = strconv.ParseInt(last, 10, 64); err != nil {
			return
		}
	}
	if step != "" {
		every, err = strconv.ParseInt(step, 10, 64)
	}
	return
}

func (s *script) what(e *Evidence, at int64, words []string) error {
	switch words[0] {
	case "probe":
		n, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			return err
		}
		p := Probe{Prober: uint32(n), Count: 1, Suspect: len(words) > 3 && words[3] == "suspect"}
		for r, name := range results {
			if strings.ReplaceAll(name, " ", "-") == words[2] {
				p.Result = Result(r)
			}
		}
		e.Probes = append(e.Probes, p)
	case "self":
		e.Self = &Self{Ready: words[1] != "unready", Draining: words[1] == "draining"}
		for _, w := range words[2:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				return err
			}
			e.Self.Dependencies = append(e.Self.Dependencies, Permille(n))
		}
	case "calls":
		return calls(e, words[1:])
	case "charged":
		return charged(e, words[1:])
	case "fact":
		f := Facts{}
		switch words[1] {
		case "gone":
			f.Gone = true
		case "lease-ended":
			f.LeaseEnded = true
		case "held-out":
			f.HeldOut = true
		case "none":
		default:
			return fmt.Errorf("no fact %q", words[1])
		}
		s.facts[at] = f
	case "explain":
		s.explain[at] = true
	case "end":
	default:
		return fmt.Errorf("no %q", words[0])
	}
	return nil
}

// calls reads ok=N failed=N, unanswered= how many of the failed, of= how many reporters, hurt= and refused= how
// many of them, sib= the share of failures at siblings, alone without any.
func calls(e *Evidence, words []string) error {
	o := &Outcomes{Span: 1}
	reporters, hurt, refused, sib, alone := 3, 0, 0, 0, false
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		n := 0
		if v != "" {
			var err error
			if n, err = strconv.Atoi(v); err != nil {
				return err
			}
		}
		switch k {
		case "ok":
			o.OK = uint32(n)
		case "failed":
			o.Failed = uint32(n)
		case "unanswered":
			o.Unanswered = uint32(n)
		case "of":
			reporters = n
		case "hurt":
			hurt = n
		case "refused":
			refused = n
		case "sib":
			sib = n
		case "span":
			o.Span = uint8(n)
		case "alone":
			alone = true
		default:
			return fmt.Errorf("no %q", k)
		}
	}
	first := func(n int) (s Sketch) {
		for i := range n {
			s = s.With(uint64(i))
		}
		return s
	}
	o.Reporters, o.Hurt, o.Refusing = first(reporters), first(hurt), first(refused)
	if !alone {
		o.Compared = o.OK + o.Failed
		o.Expected = uint64(o.Compared) * uint64(sib) * 10
	}
	e.Outcomes = append(e.Outcomes, *o)
	return nil
}

// charged reads zone=NAME or revision=NAME, failed=N and of=N.
func charged(e *Evidence, words []string) error {
	x := Charged{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(v)
		switch k {
		case "zone", "revision":
			x.Caller, x.Revision, err = v, k == "revision", nil
		case "failed":
			x.Failed = uint32(n)
		case "of":
			x.Results = uint32(n)
		default:
			return fmt.Errorf("no %q", k)
		}
		if err != nil {
			return err
		}
	}
	e.Charged = &x
	return nil
}

func (s *script) terms(words []string) error {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(v)
		if err != nil && k != "dependency" && k != "profile" {
			return err
		}
		no := false
		switch k {
		case "ramp":
			s.contract.Ramp = n
		case "silence-fails":
			s.contract.SilenceFails = n == 1
		case "profile":
			s.contract.Profile = Profile{Probe: strings.Contains(v, "probe"), Self: strings.Contains(v, "self"), Outcomes: strings.Contains(v, "outcomes")}
		case "dependency":
			name, authority, _ := strings.Cut(v, ":")
			d := Dependency{Name: name, Authority: Authority(authority)}
			if d.Authority == Unready {
				d.Shared = &no
			}
			s.contract.Dependencies = append(s.contract.Dependencies, d)
		default:
			return fmt.Errorf("no term %q", k)
		}
	}
	return nil
}

// run folds every second.
func (s *script) run() string { return s.fold(func(int64, int64) bool { return true }) }

// runSparse folds only what has evidence, new facts, or is due.
func (s *script) runSparse() string {
	return s.fold(func(now, due int64) bool {
		_, fact := s.facts[now]
		return s.ticks[now] != nil || fact || now >= due || now == 1
	})
}

func (s *script) fold(judged func(now, due int64) bool) string {
	var b strings.Builder
	c, state, facts, due := Prepare(s.contract), State{Born: 1}, Facts{}, int64(math.MaxInt64)
	for now := int64(1); now <= s.end; now++ {
		if f, ok := s.facts[now]; ok {
			facts = f
		}
		if judged(now, due) {
			e := Evidence{}
			if s.ticks[now] != nil {
				e = *s.ticks[now]
			}
			var ch Change
			var changed bool
			if ch, changed, due = state.Fold(c, e, facts, now); changed {
				b.WriteString(state.line(c, ch, now))
			}
		}
		if s.explain[now] {
			b.WriteString(state.told(c, now))
		}
	}
	return b.String()
}

func (s *State) line(c *Terms, ch Change, now int64) string {
	line := fmt.Sprintf("%4d  %-10s %-20s weight %4d", now, s.Verdict, s.Rule, int(s.Weight)*int(s.Ramped(c))/1000)
	if ch.Quarantined {
		line += fmt.Sprintf("  quarantined until %d", s.Quarantine.Until)
	}
	return line + "\n"
}

func (s *State) told(c *Terms, now int64) string {
	a := s.Explain(c, now)
	line := fmt.Sprintf("      %s: %s\n", a.Verdict, a.Why)
	for _, x := range a.Classes {
		line += "        " + x + "\n"
	}
	return line + "        would change it: " + a.Next + "\n"
}
