package crashpoints_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
)

func TestARuleIsFollowedOnceAlsoByTheProcessThatFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inner, died := memory.Open(memory.Options{}), 0
	process := func() store.Store {
		return crashpoints.NewRules(path).Life(func() { died++ }).Store(inner)
	}
	n := 0
	apply := func(s store.Store) error {
		n++
		event := store.Write{Key: store.Key{Kind: service.KindEvent, Name: "hello." + string(rune('a'+n))}, Body: []byte(`{"text":"deploy routes: all"}`)}
		saga := store.Write{Key: store.Key{Kind: service.KindSaga, Name: "hello." + string(rune('a'+n))}, Body: []byte(`{}`)}
		_, err := s.Apply(t.Context(), store.Apply{ID: event.Key.Name, Writes: []store.Write{saga, event}})
		return err
	}
	if err := apply(process()); err != nil {
		t.Fatalf("without a file: %v", err)
	}
	write(`[{"id":"r1","call":["event hello.","deploy routes:"],"fault":"crash after"},{"id":"r2","call":["deploy finalize:"],"fault":"crash before"}]`)
	if err := apply(process()); !errors.Is(err, crashpoints.ErrDead) || died != 1 {
		t.Errorf("it did not die: %v", err)
	}
	if err := apply(process()); err != nil || died != 1 {
		t.Errorf("the process that follows: %v, %d died", err, died)
	}
	write(`[{"id":"r3","call":["deploy routes:"],"fault":"error that landed","always":true}]`)
	for range 2 {
		if err := apply(process()); !errors.Is(err, crashpoints.ErrFault) {
			t.Errorf("always: %v", err)
		}
	}
	write(`[{"id":"r4","call":["saga hello."],"fault":"late","delay":50000000}]`)
	began := time.Now()
	if err := apply(process()); err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("late: %v after %s", err, time.Since(began))
	}
	hits, err := os.ReadFile(path + ".hit")
	if err != nil || strings.Count(string(hits), "\n") != 4 || !strings.HasPrefix(string(hits), "r1 crash after at apply; saga hello.") {
		t.Errorf("noted: %v\n%s", err, hits)
	}
}
