package service

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

// Digest names the template's intent: "sha256:" and 64 hex digits, over its
// canonical JSON, keyed so that a guessed environment cannot be confirmed by
// it. Two templates of one intent have one digest under one key.
func (t Template) Digest(key string) string {
	// encoding/json orders the names of a map; Template holds nothing else
	// that has two forms, but for the empty environment.
	b, err := json.Marshal(t.clone())
	if err != nil { // a Template holds nothing that JSON cannot say
		panic("service: cannot encode a template: " + err.Error())
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(b)
	return "sha256:" + hex.EncodeToString(mac.Sum(nil))
}

// Met says whether what next asks for is what already serves: old asks for the
// same, was applied, and the traffic goes to revisions of that template.
// Revisions :: name → revision. A changed Force is a wish for a new revision.
func Met(old *Desired, next Desired, today Catalog, revisions map[string]Revision) bool {
	if old == nil || old.Deleted || today.NeedsOperator != "" {
		return false
	}
	if !sameIntent(*old, next) || today.ObservedGeneration != old.Generation {
		return false
	}
	serves := func(name string) bool {
		r, known := revisions[name]
		return known && r.Template.equal(next.Template)
	}
	if next.Pinned() == "" && slices.ContainsFunc(today.Traffic, func(p CatalogPart) bool { return p.Percent > 0 && !serves(p.Revision) }) {
		return false
	}
	return len(today.Traffic) > 0 && serves(today.Latest) && !next.Paused
}

// sameIntent compares all but who wrote it, when, and its number.
func sameIntent(a, b Desired) bool {
	return a.Service == b.Service && a.Deleted == b.Deleted && a.Instances == b.Instances &&
		a.Round == b.Round && a.Force == b.Force &&
		slices.Equal(a.HostNames, b.HostNames) && slices.Equal(a.Traffic, b.Traffic) &&
		a.Template.equal(b.Template)
}

func (t Template) equal(o Template) bool {
	return reflect.DeepEqual(t.clone(), o.clone())
}

// Serving says in a sentence what serves by the catalog.
func (c Catalog) Serving() string {
	var parts []CatalogPart
	for _, p := range c.Traffic {
		if p.Percent > 0 {
			parts = append(parts, p)
		}
	}
	switch len(parts) {
	case 0:
		return "nothing serves " + c.Service
	case 1:
		return parts[0].Revision + " serves all traffic"
	}
	s := ""
	for i, p := range parts {
		if i > 0 {
			s += ", "
		}
		s += p.Revision + " serves " + percentText(p.Percent)
	}
	return s
}

func percentText(n int) string { return strconv.Itoa(n) + "%" }
