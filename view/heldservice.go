package view

import (
	"fmt"
	"slices"
	"time"
)

// HeldService is what a client holds of one service's view: what it was told,
// and what it picks by. It is immutable; the nil HeldService holds nothing.
//
// What is told is picked by at once, but for what would leave the client with
// too little, and was not explained:
//
//   - An empty set empties nothing unless it says that the service is deleted
//     or has no instances by intent.
//   - Within ten minutes health may take at most half of what there is; who
//     would be beyond that stays. An instance that is told no more, rather than
//     told to be out, has ended or leaves by plan: it goes at once, and counts
//     no more.
//   - Under another incarnation nothing is explained by its absence.
//   - What another region says is not taken: its callers are others.
type HeldService struct {
	told, serving *Service
	left          map[string]time.Duration // :: endpoint → when health took it out of rotation
	tops          []Version                // the highest taken of each incarnation, the one heard last is last
	objection     string
}

// takenWindow is for how long what health took counts.
const takenWindow = 10 * time.Minute

// Told is the view as the plane sent it; nil is none.
func (h *HeldService) Told() *Service {
	if h == nil {
		return nil
	}
	return h.told
}

// Serving is the view to pick by, under the version of Told; nil is none.
func (h *HeldService) Serving() *Service {
	if h == nil {
		return nil
	}
	return h.serving
}

// Objection says why Serving is not what was told; empty where it is.
func (h *HeldService) Objection() string {
	if h == nil {
		return ""
	}
	return h.objection
}

// Take makes what is held after c, which came under an epoch that was heeded.
// Now is of any monotonic clock. On an error h stands: one that wraps ErrBase
// or ErrDigest is answered by asking for the whole view, any other by leaving
// the sender.
func (h *HeldService) Take(c Change, now time.Duration) (*HeldService, error) {
	if c.Service == "" || c.To.Incarnation == "" || c.To.Incarnation != c.Epoch.Incarnation || c.To.Epoch != c.Epoch.Number {
		return h, fmt.Errorf("cannot take the view %s of %q under the epoch %s: %w", c.To, c.Service, c.Epoch, ErrMalformed)
	}
	if told := h.Told(); told != nil && told.Version.Region != "" && c.To.Region != told.Version.Region {
		return h, fmt.Errorf("cannot take the view %s of %s: %w (%s)", c.To, c.Service, ErrOtherRegion, told.Version.Region)
	}
	if top, known := h.top(c.To.Incarnation); known && c.To.Against(top) == Older {
		return h, fmt.Errorf("cannot take the view %s of %s: %w (%s)", c.To, c.Service, ErrOlderVersion, top)
	}
	if !c.Full() && c.To.Against(c.Base) == Foreign {
		return h, fmt.Errorf("cannot take the view %s of %s from %s: %w", c.To, c.Service, c.Base, ErrBase)
	}
	told, err := h.Told().Apply(c)
	if err != nil {
		return h, err
	}
	next := &HeldService{told: told, tops: h.topped(c.To)}
	next.guard(h, now)
	return next, nil
}

// guard works out what to pick by, after before.
func (h *HeldService) guard(before *HeldService, now time.Duration) {
	h.serving = h.told
	was := before.Serving()
	if was == nil || h.told.Deleted || h.told.Empty {
		return
	}
	if len(h.told.Endpoints) == 0 && was.InRotation() > 0 {
		h.keep(slices.DeleteFunc(slices.Clone(was.Endpoints), func(e Endpoint) bool { return !e.In() }))
		h.objection = "it names no instance, and does not say that there are none: those before stay"
		return
	}
	taken := h.taken(before, now)
	in := h.told.InRotation()
	if floor := (in + len(h.left) + 1) / 2; in < floor && len(taken) > 0 {
		kept := taken[:min(floor-in, len(taken))]
		h.objection = fmt.Sprintf("health would leave %d in rotation, and take %d within ten minutes: %d of these stay", in, len(h.left), len(kept))
		h.keep(kept)
		for _, e := range kept {
			delete(h.left, e.ID)
		}
	}
}

// taken are the endpoints that were in rotation and are not, without that
// being explained; those of the last ten minutes are noted.
func (h *HeldService) taken(before *HeldService, now time.Duration) (taken []Endpoint) {
	h.left = map[string]time.Duration{}
	foreign := before.told.Version.Against(h.told.Version) == Foreign
	explained := func(id string) bool { // it was told by this incarnation, and is no more
		_, was := before.told.Endpoint(id)
		_, is := h.told.Endpoint(id)
		return was && !is && !foreign
	}
	for id, at := range before.left {
		if t, _ := h.told.Endpoint(id); !t.In() && !explained(id) && now-at <= takenWindow {
			h.left[id] = at
		}
	}
	for was, is := range differing(before.serving.Endpoints, h.told.Endpoints) {
		if was != nil && was.In() && (is == nil || !is.In()) && !explained(was.ID) {
			taken = append(taken, *was)
			h.left[was.ID] = now
		}
	}
	return taken
}

// keep leaves endpoints in rotation though they were not told to be.
func (h *HeldService) keep(kept []Endpoint) {
	serving := *h.told
	serving.Endpoints = merge(h.told.Endpoints, kept, nil)
	serving.Seal(h.told)
	h.serving = &serving
}

func (h *HeldService) top(incarnation string) (Version, bool) {
	if h == nil {
		return Version{}, false
	}
	i := slices.IndexFunc(h.tops, func(v Version) bool { return v.Incarnation == incarnation })
	if i < 0 {
		return Version{}, false
	}
	return h.tops[i], true
}

func (h *HeldService) topped(v Version) (out []Version) {
	if h != nil {
		out = slices.DeleteFunc(slices.Clone(h.tops), func(t Version) bool { return t.Incarnation == v.Incarnation })
	}
	out = append(out, v)
	return out[max(0, len(out)-maxMarks):]
}

// ServiceSnapshot is what a client writes to its disk of one service's view.
type ServiceSnapshot struct {
	Told Service `json:"told"`
	// Kept endpoints are in rotation though they were told to be out.
	Kept      []Endpoint `json:"kept,omitempty"`
	Objection string     `json:"objection,omitempty"`
	Tops      []Version  `json:"tops"`
}

// Snapshot makes what RestoreService reads; h is not nil.
func (h *HeldService) Snapshot() ServiceSnapshot {
	s := ServiceSnapshot{Told: *h.told, Objection: h.objection, Tops: h.tops}
	for _, e := range h.serving.Endpoints {
		if t, told := h.told.Endpoint(e.ID); !told || t != e {
			s.Kept = append(s.Kept, e)
		}
	}
	return s
}

// RestoreService makes what was held when s was written. What health took
// before counts no more.
func RestoreService(s ServiceSnapshot) *HeldService {
	h := &HeldService{told: &s.Told, serving: &s.Told, objection: s.Objection, tops: s.Tops}
	if len(s.Kept) > 0 {
		h.keep(s.Kept)
	}
	return h
}
