package crashpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// Rule is one line of a rules file, in JSON: which call, and what happens at it.
type Rule struct {
	// ID names the rule among all that the file ever has.
	ID string `json:"id"`
	// Call is what the call's name has to contain, each of them. An Apply's
	// name is "apply" and then each write as "KIND NAME", with a minus where it
	// deletes; a line of history is followed by its text.
	Call  []string `json:"call"`
	Fault Fault    `json:"fault"`
	// Always: at each such call while the rule is in the file; else at the
	// first one only, whichever process makes it.
	Always bool `json:"always,omitempty"`
	// Delay of what is late.
	Delay time.Duration `json:"delay,omitempty"`
}

// Rules have faults happen in a real process, by a file that is read at each
// call: its owner replaces it by a rename. What has happened is appended to the
// file's name with ".hit", a line each, before it happens, so that the process
// that follows a dead one knows which rules are used up.
type Rules struct {
	path string
	mu   sync.Mutex
}

// NewRules of the file, which need not be there yet.
func NewRules(path string) *Rules { return &Rules{path: filepath.Clean(path)} }

// Life of the controller that is wrapped; die ends the process, and does not return.
func (r *Rules) Life(die func()) *Life { return &Life{points: r, kill: die} }

func (r *Rules) names(a store.Apply) string {
	if applied(a) == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("apply")
	for _, w := range a.Writes {
		b.WriteString("; ")
		if w.Delete {
			b.WriteString("-")
		}
		b.WriteString(w.Kind + " " + w.Name)
		var e service.Event
		if w.Kind == service.KindEvent && json.Unmarshal(w.Body, &e) == nil {
			b.WriteString(": " + e.Text)
		}
	}
	return b.String()
}

func (r *Rules) reach(_ int, call string, _ []Fault) (Fault, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rule, ok, err := r.find(call)
	if err != nil {
		panic(fmt.Sprintf("crashpoints: %v", err)) // a test's file: nothing that it asks for would happen
	}
	if !ok {
		return "", 0
	}
	return rule.Fault, rule.Delay
}

// find the first rule for the call that is not used up, and note its use.
func (r *Rules) find(call string) (Rule, bool, error) {
	text, err := os.ReadFile(r.path)
	if os.IsNotExist(err) || err == nil && len(text) == 0 {
		return Rule{}, false, nil
	}
	if err != nil {
		return Rule{}, false, err
	}
	var rules []Rule
	if err := json.Unmarshal(text, &rules); err != nil {
		return Rule{}, false, fmt.Errorf("cannot read %s: %w", r.path, err)
	}
	for _, rule := range rules {
		if !rule.matches(call) {
			continue
		}
		used, err := r.note(rule, call)
		if err != nil {
			return Rule{}, false, err
		}
		if rule.Always || !used {
			return rule, true, nil
		}
	}
	return Rule{}, false, nil
}

func (r Rule) matches(call string) bool {
	for _, part := range r.Call {
		if !strings.Contains(call, part) {
			return false
		}
	}
	return len(r.Call) > 0
}

// note appends to what was hit, and says whether the rule was there before.
// A rule that is used up is not noted again.
func (r *Rules) note(rule Rule, call string) (used bool, err error) {
	f, err := os.OpenFile(r.path+".hit", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	before, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	used = strings.Contains("\n"+string(before), "\n"+rule.ID+" ")
	if used && !rule.Always {
		return true, nil
	}
	_, err = fmt.Fprintf(f, "%s %s at %s\n", rule.ID, rule.Fault, strings.ReplaceAll(call, "\n", " "))
	return used, err
}

// late waits as long as the rule says.
func (r *Rules) late(d time.Duration) bool {
	time.Sleep(d)
	return true
}
