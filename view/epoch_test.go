package view_test

import (
	"errors"
	"testing"

	"github.com/fairlead-platform/fairlead/view"
)

func TestAnEpochStandsToTheHeldOne(t *testing.T) {
	held := view.Epoch{Incarnation: "i", Number: 5, Nonce: "n"}
	for name, c := range map[string]struct {
		e    view.Epoch
		want view.Order
	}{
		"same":    {held, view.Same},
		"older":   {view.Epoch{Incarnation: "i", Number: 4, Nonce: "z"}, view.Older},
		"newer":   {view.Epoch{Incarnation: "i", Number: 6, Nonce: "a"}, view.Newer},
		"rival":   {view.Epoch{Incarnation: "i", Number: 5, Nonce: "m"}, view.Rival},
		"foreign": {view.Epoch{Incarnation: "j", Number: 9, Nonce: "n"}, view.Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.e.Against(held); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestTheHighestEpochIsKeptAndSurvivesARestart(t *testing.T) {
	var h *view.Held
	var err error
	for _, n := range []uint64{3, 5} {
		if h, _, err = h.Heed(view.Epoch{Incarnation: "i", Number: n, Nonce: "n"}, authenticated); err != nil {
			t.Fatal(err)
		}
	}
	back := view.Restore(h.Snapshot(), nil)
	if back.Epoch().Number != 5 || back.EpochOf("i").Number != 5 || !back.EpochOf("j").Zero() {
		t.Errorf("after a restart: %s", back.Epoch())
	}
	if _, _, err := back.Heed(view.Epoch{Incarnation: "i", Number: 4, Nonce: "n"}, authenticated); !errors.Is(err, view.ErrOlderEpoch) {
		t.Errorf("got %v", err)
	}
}

func TestALeaderWithoutAnIncarnationIsNotFollowed(t *testing.T) {
	var h *view.Held
	if _, _, err := h.Heed(view.Epoch{}, authenticated); !errors.Is(err, view.ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestWhatWasHeededBeforeIsHeededWithoutAChange(t *testing.T) {
	var h *view.Held
	e := view.Epoch{Incarnation: "i", Number: 3, Nonce: "n"}
	h, _, err := h.Heed(e, authenticated)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := h.Heed(e, authenticated); err != nil || again != h {
		t.Errorf("held anew: %v", err)
	}
}
