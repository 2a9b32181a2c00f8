package view

import (
	"slices"
	"testing"
)

// Holders of earlier programs know nothing of zone policies, and compute what they
// hold themselves.
func TestWhatAPolicySaysIsToldWithEveryChangeAndInNoDigest(t *testing.T) {
	old := &Service{Name: "s", Version: Version{Incarnation: "i", Epoch: 1, Counter: 1}, Endpoints: []Endpoint{{ID: "a", Weight: 1000}}}
	now := *old
	now.Version.Counter, now.AnyZone, now.Callers = 2, true, []string{"caller/x"}
	now.Tags = []Tag{{"canary", []string{"s-00002"}}}
	now.Shares = []Share{{100, []string{"s-00001"}}, {0, []string{"s-00002"}}}
	if now.Digest() != old.Digest() {
		t.Error("a policy is in the digest")
	}
	for _, from := range []*Service{nil, old} {
		got, err := from.Apply(now.ChangeFrom(from))
		if err != nil || !got.AnyZone || !slices.Equal(got.Callers, now.Callers) || !EqualTags(got.Tags, now.Tags) || !EqualShares(got.Shares, now.Shares) {
			t.Errorf("from %v: %+v, %v", from, got, err)
		}
	}
}
