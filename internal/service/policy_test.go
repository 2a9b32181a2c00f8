package service

import (
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

func TestAPolicyThatIsWrongIsRefusedWithWhatToSay(t *testing.T) {
	if p := DefaultPolicy(); p.Check() != nil || p.Dangers() != nil {
		t.Fatalf("the default: %v, %v", p.Check(), p.Dangers())
	}
	for _, x := range []struct {
		name string
		edit func(p *Policy)
		says string
	}{
		{"a zone policy that there is not", func(p *Policy) { p.Zones = "near" }, "use prefer or any"},
		{"a mode that there is not", func(p *Policy) { p.Guard.Mode = "off" }, "use serve-all, hold or honour"},
		{"a guard that never trips", func(p *Policy) { p.Guard.Fraction = 0 }, "mode honour, which says what it does"},
		{"a fraction that is none", func(p *Policy) { p.Guard.Fraction = 50 }, "guard.fraction 50"},
		{"a ramp that is too short", func(p *Policy) { p.Ramp = &Ramp{Seconds: 5} }, "use 0 for none, or 60"},
		{"one step", func(p *Policy) { p.Ramp = &Ramp{Seconds: 60, Steps: []float64{0.5}} }, "use 2 to"},
		{"a first step that is a whole trial", func(p *Policy) { p.Ramp = &Ramp{Seconds: 60, Steps: []float64{0.9, 1}} }, "is tried with it"},
		{"a ramp without an end", func(p *Policy) { p.Ramp = &Ramp{Seconds: 60, Steps: []float64{0.1, 0.5}} }, "the last is 1"},
		{"steps that fall", func(p *Policy) { p.Ramp = &Ramp{Seconds: 60, Steps: []float64{0.3, 0.2, 1}} }, "each is more"},
		{"a caller of no role", func(p *Policy) { p.AllowedCallers = []string{"web"} }, "say ROLE/NAME, ROLE/*"},
		{"a caller of a role that calls nobody", func(p *Policy) { p.AllowedCallers = []string{"host/a"} }, "where ROLE is service"},
		{"a caller without a name", func(p *Policy) { p.AllowedCallers = []string{"service/"} }, "say ROLE/NAME, ROLE/*"},
		{"a pattern", func(p *Policy) { p.AllowedCallers = []string{"service/we*"} }, "say ROLE/NAME, ROLE/*"},
		{"one caller twice", func(p *Policy) { p.AllowedCallers = []string{"service/web", "service/web"} }, "there twice"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := DefaultPolicy()
			x.edit(&p)
			if err := p.Check(); err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("got %v, want it to say %q", err, x.says)
			}
		})
	}
	p := DefaultPolicy()
	p.AllowedCallers, p.Ramp = []string{"service/web", "caller/batch.1", "gateway/*", "agent/*/job"}, &Ramp{Steps: []float64{0.1, 1}}
	if err := p.Check(); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func TestWhatAPolicyGivesUpIsSaid(t *testing.T) {
	for _, x := range []struct {
		guard Guard
		says  string
	}{
		{Guard{0.5, view.Honour}, "followed to an empty set"},
		{Guard{0.1, view.ServeAll}, "hardly anything is left"},
		{Guard{0.95, view.HoldForPerson}, "a single instance that hangs"},
	} {
		p := DefaultPolicy()
		p.Guard = x.guard
		if d := strings.Join(p.Dangers(), "\n"); p.Check() != nil || !strings.Contains(d, x.says) {
			t.Errorf("%+v: %q, %v", x.guard, d, p.Check())
		}
	}
}
