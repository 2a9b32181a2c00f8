package httpresolver

import (
	"net/url"
	"testing"
)

func TestACertificateTellsAnotherServiceOrInstance(t *testing.T) {
	for id, want := range map[string]bool{
		"spiffe://fairlead/service/payments":    false,
		"spiffe://fairlead/service/payments/i1": false,
		"spiffe://fairlead/service/payments/i2": true,
		"spiffe://fairlead/service/another":     true,
		"spiffe://fairlead/caller/payments":     false, // says nothing of instances
		"https://payments":                      false,
	} {
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := foreign([]*url.URL{u}, "payments", "i1"); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	if foreign(nil, "payments", "i1") {
		t.Error("no identity is another's")
	}
}
