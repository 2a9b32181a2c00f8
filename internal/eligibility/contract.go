package eligibility

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Authority is how far a dependency may lower the verdict of who depends.
type Authority string

const (
	Informational Authority = "informational" // shown, nothing else
	Weight        Authority = "weight"        // lowers the weight; the default
	Unready       Authority = "unready"       // takes out of rotation; never for a shared dependency
)

// Dependency is one that a workload reports on by name.
type Dependency struct {
	Name      string    `json:"name"`
	Authority Authority `json:"authority,omitempty"` // empty means weight
	Shared    *bool     `json:"shared,omitempty"`    // nil means shared: the safe reading
}

func (d Dependency) shared() bool { return d.Shared == nil || *d.Shared }

// Profile says which signals a service's runtime can supply.
type Profile struct {
	Probe    bool `json:"probe"`
	Self     bool `json:"self"`
	Outcomes bool `json:"outcomes"`
}

// ProbeCheck says how probers look at an instance.
type ProbeCheck struct {
	Kind string `json:"kind"`           // tcp, http or grpc
	Path string `json:"path,omitempty"` // of an HTTP look; the service of a gRPC look
}

// Contract is how the health of a service's instances is read. Seconds and
// thousandths are whole numbers. [Default] gives every field with its reason.
type Contract struct {
	Profile Profile `json:"profile"`
	// Look says how probers look; nil is by the service's ready path, or by a
	// connection where it has none.
	Look *ProbeCheck `json:"check,omitempty"`

	ProbeInterval int `json:"probeInterval"` // seconds between one prober's looks
	HalfLife      int `json:"halfLife"`      // seconds in which a sample loses half of its say

	OutByProbes   Permille `json:"outByProbes"`
	OutByOutcomes Permille `json:"outByOutcomes"`
	DegradeAt     Permille `json:"degradeAt"` // by outcomes
	In            Permille `json:"in"`        // below it, for ReturnAfter, an instance comes back
	// Worse is by how much an instance must fare worse than its siblings
	// under the same reporters before its callers may put it out.
	Worse Permille `json:"worse"`

	ReturnAfter int    `json:"returnAfter"` // seconds
	Sufficient  uint32 `json:"sufficient"`  // results in ten seconds from which outcomes decide
	SilentAfter int    `json:"silentAfter"` // seconds without a sample from which a class is silent
	// SilenceFails takes a silent instance out: for a service that would
	// rather serve nothing than serve by something dead.
	SilenceFails bool `json:"silenceFails,omitempty"`

	Ramp int `json:"ramp"` // seconds to full weight: 0, or at least 60
	// Steps of the ramp, as the service's policy has them: the share of its
	// weight that an instance has in each, the last is whole. Nil are the
	// platform's. They are no part of a contract that is written.
	Steps        []Permille   `json:"-"`
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// Default is the contract of a service that declares none.
func Default() Contract {
	return Contract{
		Profile:       Profile{Probe: true, Self: true, Outcomes: true},
		ProbeInterval: 5,
		HalfLife:      5,
		OutByProbes:   500, // two rounds of looks after a perfect history
		OutByOutcomes: 240, // half of the requests failing pass it in five seconds; a quarter never does
		DegradeAt:     150, // well above what a fleet in good health fails by itself
		In:            100,
		Worse:         100,
		ReturnAfter:   30,
		Sufficient:    50,
		SilentAfter:   25, // above the ten seconds that a clean run is told in, twice
		Ramp:          60,
	}
}

// Bounds of the platform: a contract may be stricter with itself, not with the
// guarantees that others rest on.
const (
	maxDamping     = 5 // seconds that damping may add to a total failure's detection
	minReturnAfter = 10
	minRamp        = 60
	maxProbe       = 10 // seconds: the budget of detection
	minSufficient  = 10
	minSilentAfter = 21 // a clean run is told once in ten seconds; one row may be lost
)

// Check says what is wrong with the contract, all of it, and what to do.
func (c Contract) Check() error {
	var all []error
	wrong := func(bad bool, format string, a ...any) {
		if bad {
			all = append(all, fmt.Errorf(format, a...))
		}
	}
	wrong(!c.Profile.Probe && !c.Profile.Self && !c.Profile.Outcomes, "profile: no signal at all: declare at least outcomes")
	wrong(c.ProbeInterval < 1 || c.ProbeInterval > maxProbe, "probeInterval is %d s: use 1 to %d", c.ProbeInterval, maxProbe)
	wrong(c.HalfLife < 1 || c.HalfLife > 60, "halfLife is %d s: use 1 to 60", c.HalfLife)
	wrong(c.OutByProbes < 1 || c.OutByProbes >= 1000, "outByProbes is %d thousandths: use 1 to 999", c.OutByProbes)
	wrong(c.OutByOutcomes < 1 || c.OutByOutcomes >= 1000, "outByOutcomes is %d thousandths: use 1 to 999", c.OutByOutcomes)
	wrong(c.In >= c.DegradeAt, "in (%d) is not below degradeAt (%d): an instance would come and go on one figure", c.In, c.DegradeAt)
	wrong(c.In >= c.OutByProbes, "in (%d) is not below outByProbes (%d): an instance would come and go on one figure", c.In, c.OutByProbes)
	wrong(c.DegradeAt > c.OutByOutcomes, "degradeAt (%d) is above outByOutcomes (%d)", c.DegradeAt, c.OutByOutcomes)
	wrong(c.Worse < 50, "worse is %d thousandths: below 50 a shared fault could put instances out one by one", c.Worse)
	wrong(c.ReturnAfter < minReturnAfter, "returnAfter is %d s: coming back takes longer than leaving, use %d or more", c.ReturnAfter, minReturnAfter)
	wrong(c.Sufficient < minSufficient, "sufficient is %d results: below %d chance decides", c.Sufficient, minSufficient)
	wrong(c.SilentAfter < minSilentAfter || c.SilentAfter < 3*c.ProbeInterval, "silentAfter is %d s: use at least %d, and three probe intervals", c.SilentAfter, minSilentAfter)
	wrong(c.Ramp != 0 && c.Ramp < minRamp, "ramp is %d s: use 0 for none, or %d and more", c.Ramp, minRamp)
	all = append(all, c.checkLook()...)
	all = append(all, c.checkDependencies()...)
	if len(all) == 0 {
		if d := c.Damping(); d.Probes > maxDamping && c.Profile.Probe || d.Outcomes > maxDamping && c.Profile.Outcomes {
			wrong(true, "a total failure would be damped by %d s by probes and %d s by outcomes: at most %d: shorten halfLife or lower the thresholds", d.Probes, d.Outcomes, maxDamping)
		}
	}
	return errors.Join(all...)
}

func (c Contract) checkLook() (all []error) {
	if c.Look == nil {
		return nil
	}
	switch c.Look.Kind {
	case "http":
		if p := strings.TrimPrefix(c.Look.Path, "/"); !isPath("/" + p) {
			all = append(all, fmt.Errorf("check: %q is no path that can be asked for, so every look would fail: give one as in a request, e.g. /healthz", c.Look.Path))
		}
	case "grpc":
	case "tcp":
		if c.Look.Path != "" {
			all = append(all, fmt.Errorf("check: a tcp look has no path, %q is given: use kind http, or drop it", c.Look.Path))
		}
	default:
		all = append(all, fmt.Errorf("check: kind %q: use tcp, http or grpc", c.Look.Kind))
	}
	if !c.Profile.Probe {
		all = append(all, errors.New("check: it says how probers look, but the profile has no probes: add probe to the profile, or drop it"))
	}
	return all
}

// isPath reports whether a request can be made for p.
func isPath(p string) bool {
	_, err := url.ParseRequestURI(p)
	return err == nil && !strings.ContainsAny(p, " #\t\r\n")
}

func (c Contract) checkDependencies() (all []error) {
	seen := map[string]bool{} // :: dependency → named
	for _, d := range c.Dependencies {
		switch d.Authority {
		case "", Informational, Weight:
		case Unready:
			if d.shared() {
				all = append(all, fmt.Errorf("dependency %q may not make its users unready: it is shared, so all would leave together; say shared: false if each instance has its own, or use authority: weight", d.Name))
			}
		default:
			all = append(all, fmt.Errorf("dependency %q has authority %q: use informational, weight or unready", d.Name, d.Authority))
		}
		if d.Name == "" || seen[d.Name] {
			all = append(all, fmt.Errorf("dependency %q is named twice, or not at all", d.Name))
		}
		seen[d.Name] = true
	}
	if len(c.Dependencies) > 0 && !c.Profile.Self {
		all = append(all, errors.New("dependencies are declared, but the profile says that the workload reports nothing about itself: add self to the profile, or drop them"))
	}
	return all
}
