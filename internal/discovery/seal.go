package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

const (
	sealEvery    = 20 * time.Second
	collectEvery = 3 // rounds
	// What is older than sealAfter is sealed, together with all that is older
	// than sealWith, so that a quiet service has few parts. In ticks.
	sealAfter = 24 * 3600
	sealWith  = 12 * 3600
	// KeptPolicies of a service stay in the store, at least while it is there.
	KeptPolicies = 50
	trimHistory  = 6 * time.Hour
)

// Policy is a change of what governs a service's health, as it is recorded with
// the change.
type Policy struct {
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	What    string    `json:"what"`    // contract or policy
	Changes []string  `json:"changes"` // field by field, for people
	// Before is the contract that was in force until then, as it was declared.
	Before json.RawMessage `json:"before,omitempty"`
}

// outbox moves history from the store into the archive: what is sealed is on
// disk there before it is erased here.
func (t *term) outbox(ctx context.Context) {
	tick := time.NewTicker(sealEvery)
	defer tick.Stop()
	var trimmed time.Time
	var unknown map[string]bool
	for round := 1; ; round++ {
		select { // the end of the term, or time for a round
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := t.sealRound(ctx)
		if round%collectEvery == 0 {
			unknown = t.collect(ctx, unknown)
		}
		if now := t.p.cfg.Now(); now.Sub(trimmed) >= trimHistory {
			trimmed = now
			err = errors.Join(err, t.archive.Trim(ctx, now))
		}
		if err != nil && ctx.Err() == nil {
			t.log.Warn("history stays in the store for now", "error", err)
		}
	}
}

// collect erases what services left behind that nothing knows, nor did before, so
// that one that is being made is spared.
func (t *term) collect(ctx context.Context, before map[string]bool) map[string]bool {
	t.mu.Lock()
	names := t.records.services()
	for name := range t.contracts {
		names = append(names, name)
	}
	for name := range t.governed {
		names = append(names, name)
	}
	unknown := map[string]bool{} // :: service → nothing knows it
	for _, name := range names {
		if !t.lead.Knows(name) && len(t.reg.Of(name)) == 0 {
			unknown[name] = true
		}
	}
	t.mu.Unlock()
	for name := range unknown {
		if !before[name] {
			continue
		}
		err := t.bury(ctx, name)
		if err == nil {
			err = t.lead.Commit(ctx, []store.Write{
				erase(store.Key{Kind: service.KindContract, Name: name}), erase(store.Key{Kind: service.KindGovernance, Name: name}),
			})
		}
		if err != nil {
			t.log.Warn("cannot erase what a service left behind", "service", name, "error", err)
		}
	}
	return unknown
}

func (t *term) sealRound(ctx context.Context) error {
	t.mu.Lock()
	now := t.eval.Now()
	t.mu.Unlock()
	var all []error
	for _, name := range t.records.services() {
		if over := t.records.beyond(name, now); len(over) > 0 {
			all = append(all, t.seal(ctx, name, over))
		}
	}
	policies, err := t.policies(ctx)
	all = append(all, err)
	for name, keys := range policies {
		if n := len(keys) - KeptPolicies; n > 0 {
			all = append(all, t.seal(ctx, name, keys[:n]))
		}
	}
	return errors.Join(all...)
}

// policies are the recorded changes of policies: :: service → records, oldest first.
func (t *term) policies(ctx context.Context) (map[string][]entry, error) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindPolicy)
	if err != nil {
		return nil, fmt.Errorf("cannot read the recorded policies: %w", err)
	}
	out := map[string][]entry{}
	for _, d := range docs {
		name := d.Name[:max(strings.LastIndexByte(d.Name, '.'), 0)]
		out[name] = append(out[name], entry{key: d.Key})
	}
	return out, nil
}

// seal writes records of one service into the archive, and then erases them.
func (t *term) seal(ctx context.Context, name string, all []entry) error {
	docs := make([]Sealed, 0, len(all))
	writes := make([]store.Write, 0, len(all))
	for _, e := range all {
		d, err := t.p.cfg.Store.Get(ctx, e.key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", e.key, err)
		}
		var dated struct {
			At time.Time `json:"at"`
		}
		if json.Unmarshal(d.Body, &dated) != nil || !json.Valid(d.Body) {
			continue // what cannot be read is left where a person can look at it
		}
		docs = append(docs, Sealed{Kind: d.Kind, Name: d.Name, Incarnation: t.lead.Epoch().Incarnation, At: dated.At, Body: d.Body})
		writes = append(writes, store.Write{Key: d.Key, Expect: d.Version, Delete: true})
	}
	if len(docs) == 0 {
		t.records.gone(all)
		return nil
	}
	if err := t.lead.Commit(ctx, nil); err != nil { // another's to seal
		return err
	}
	err := t.archive.Seal(ctx, name, docs, t.p.cfg.Now())
	if t.bucketAnswers(err); err != nil {
		return err
	}
	if err := t.lead.Commit(ctx, writes); err != nil {
		return fmt.Errorf("cannot erase what was sealed: %w", err)
	}
	t.records.gone(all)
	return nil
}

// bury seals what a service that is no more left behind.
func (t *term) bury(ctx context.Context, name string) error {
	all := t.records.of(name)
	policies, err := t.policies(ctx)
	if err != nil {
		return err
	}
	all = append(all, policies[name]...)
	for len(all) > 0 {
		n := min(len(all), mostWrites)
		if err := t.seal(ctx, name, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// beyond are the service's records that are too many for the store, or too old:
// all but the last of each instance that there is, from which a rebuild starts.
func (r *records) beyond(service string, now int64) (over []entry) {
	list := r.of(service)
	last := map[string]string{} // :: instance → name of its last record
	for _, e := range list {
		last[e.instance] = e.key.Name
	}
	n, old := 0, false
	if len(list) > KeptTransitions+slackTransitions {
		n = len(list) - KeptTransitions
	}
	for i, e := range list {
		spare := last[e.instance] == e.key.Name && r.living(e.instance)
		if !spare && (i < n || now-e.tick > sealWith) {
			over, old = append(over, e), old || now-e.tick > sealAfter
		}
	}
	if n == 0 && !old {
		return nil
	}
	return over[:min(len(over), mostWrites)]
}

// of are the service's records in the store, oldest first.
func (r *records) of(service string) []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]entry(nil), r.kept[service]...)
}

// gone notes that records were erased.
func (r *records) gone(all []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(all)
	for name, list := range r.kept {
		if len(list) == 0 {
			delete(r.kept, name)
			delete(r.last, name)
		}
	}
}

// inStore is how many transitions the store holds.
func (r *records) inStore() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.kept {
		n += len(list)
	}
	return n
}
