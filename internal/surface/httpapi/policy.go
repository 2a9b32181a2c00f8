package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// policyWrite records that a contract or a policy is replaced, with what is
// different.
func (a *API) policyWrite(ctx context.Context, name, what string, was, is any) (store.Write, error) {
	changes, err := fieldChanges(was, is)
	if err != nil {
		return store.Write{}, err
	}
	p := discovery.Policy{Service: name, At: a.Now().UTC(), By: by(ctx, ""), What: what, Changes: changes}
	if what == "contract" {
		if p.Before, err = json.Marshal(was); err != nil {
			return store.Write{}, fmt.Errorf("cannot encode a contract: %w", err)
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		return store.Write{}, fmt.Errorf("cannot encode a change of policy: %w", err)
	}
	return store.Write{Key: store.Key{Kind: service.KindPolicy, Name: name + "." + a.NewID()}, Body: body}, nil
}

// fieldChanges says field by field what is different.
func fieldChanges(was, is any) ([]string, error) {
	fields := func(c any) (out map[string]json.RawMessage, err error) { // :: field → as JSON
		raw, err := json.Marshal(c)
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		return out, err
	}
	before, err := fields(was)
	if err != nil {
		return nil, fmt.Errorf("cannot compare what governs a service: %w", err)
	}
	after, err := fields(is)
	if err != nil {
		return nil, fmt.Errorf("cannot compare what governs a service: %w", err)
	}
	both := maps.Clone(before)
	maps.Copy(both, after)
	var out []string
	for _, field := range slices.Sorted(maps.Keys(both)) {
		x, y := string(before[field]), string(after[field])
		if x != y {
			out = append(out, fmt.Sprintf("%s %s → %s", field, cmp.Or(x, "none"), cmp.Or(y, "none")))
		}
	}
	return out, nil
}

// policies are the newest changes of what governs a service, oldest first: of
// the store, and sealed ones.
func (a *API) policies(ctx context.Context, name string, limit int) ([]*fairleadv1.PolicyChange, error) {
	all, _, err := list[discovery.Policy](ctx, a.Store, service.KindPolicy, func(n string) bool { return strings.HasPrefix(n, name+".") })
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || len(all) >= discovery.KeptPolicies { // else none were sealed
		// What cannot be read is said beside the transitions, which are in the same parts.
		_ = discovery.NewArchive(a.Bucket).Read(ctx, name, func(docs []discovery.Sealed) bool {
			for _, d := range docs {
				var p discovery.Policy
				if d.Kind == service.KindPolicy && json.Unmarshal(d.Body, &p) == nil {
					all = append(all, p)
				}
			}
			return len(all) < limit
		})
	}
	slices.SortStableFunc(all, func(x, y discovery.Policy) int { return x.At.Compare(y.At) })
	var out []*fairleadv1.PolicyChange
	for _, p := range all[max(0, len(all)-limit):] {
		out = append(out, &fairleadv1.PolicyChange{At: timestamp(p.At), By: p.By, What: p.What, Changes: p.Changes})
	}
	return out, nil
}
