package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// over sends m through its bytes, as a stream does.
func over[M proto.Message](t interface{ Fatalf(string, ...any) }, m, into M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return into
}

func names(max int) *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		s := rapid.SliceOfN(rapid.StringMatching(`[a-z][a-z0-9.-]{0,8}`), 0, max).Draw(t, "names")
		if len(s) == 0 {
			return nil
		}
		return s
	})
}

func durations() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, int64(1000*time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
}

func routes() *rapid.Generator[view.Route] {
	return rapid.Custom(func(t *rapid.T) view.Route {
		r := view.Route{
			Service:  rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "service"),
			Sequence: rapid.Uint64().Draw(t, "sequence"),
			Deleted:  rapid.Bool().Draw(t, "deleted"),
			Hosts:    names(3).Draw(t, "hosts"),
			Limits: view.Limits{
				MaxWaiting: rapid.IntRange(0, 1<<30).Draw(t, "waiting"), FirstByte: durations().Draw(t, "first"),
				Drain: durations().Draw(t, "drain"), Idempotent: rapid.Bool().Draw(t, "idempotent"),
			},
		}
		for range rapid.IntRange(0, 3).Draw(t, "splits") {
			r.Splits = append(r.Splits, view.Split{
				Revision: rapid.String().Draw(t, "revision"), Percent: rapid.IntRange(-5, 105).Draw(t, "percent"),
				Group: rapid.String().Draw(t, "group"), Allowed: names(2).Draw(t, "allowed"), Minted: names(2).Draw(t, "minted"),
				Tag: rapid.String().Draw(t, "tag"), Hold: rapid.Bool().Draw(t, "hold"),
			})
		}
		return r
	})
}

func versions() *rapid.Generator[view.Version] {
	return rapid.Custom(func(t *rapid.T) view.Version {
		return view.Version{
			Region: rapid.String().Draw(t, "region"), Incarnation: rapid.String().Draw(t, "incarnation"),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Counter: rapid.Uint64().Draw(t, "counter"),
		}
	})
}

func TestADeltaComesBackAsItWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := view.Delta{
			Base: versions().Draw(t, "base"), To: versions().Draw(t, "to"),
			Epoch:   view.Epoch{Incarnation: rapid.String().Draw(t, "i"), Number: rapid.Uint64().Draw(t, "n"), Nonce: rapid.String().Draw(t, "nonce")},
			Dropped: names(3).Draw(t, "dropped"),
			Digest:  view.Digest{rapid.Uint64().Draw(t, "d0"), rapid.Uint64().Draw(t, "d1")},
		}
		for range rapid.IntRange(0, 4).Draw(t, "changed") {
			d.Changed = append(d.Changed, routes().Draw(t, "route"))
		}
		got, err := wire.Delta(over(t, wire.DeltaProto(d), new(pb.RouteDelta)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatalf("delta changed on its way:\n%s", diff)
		}
	})
}

func TestAChangeOfAViewComesBackAsItWent(t *testing.T) {
	text := rapid.StringN(0, 8, 8)
	rapid.Check(t, func(t *rapid.T) {
		e := view.Epoch{Incarnation: text.Draw(t, "i"), Number: rapid.Uint64().Draw(t, "n"), Nonce: text.Draw(t, "nonce")}
		v := func(counter uint64) view.Version {
			return view.Version{Region: "r", Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}
		}
		c := view.Change{
			Service: text.Draw(t, "service"), Epoch: e, To: v(rapid.Uint64().Draw(t, "to")), Deleted: rapid.Bool().Draw(t, "deleted"), Empty: rapid.Bool().Draw(t, "empty"),
			Gone: names(3).Draw(t, "gone"), SameMarks: rapid.Bool().Draw(t, "same"), Digest: view.Digest{rapid.Uint64().Draw(t, "d0"), rapid.Uint64().Draw(t, "d1")},
		}
		if n := rapid.Uint64().Draw(t, "base"); n != 0 {
			c.Base = v(n)
			c.Base.Epoch = rapid.Uint64().Draw(t, "base epoch")
		}
		for range rapid.IntRange(0, 3).Draw(t, "put") {
			c.Put = append(c.Put, view.Endpoint{
				ID: text.Draw(t, "id"), Revision: text.Draw(t, "revision"), Address: text.Draw(t, "address"), Zone: text.Draw(t, "zone"),
				Weight:  rapid.IntRange(0, 1000).Draw(t, "weight"),
				Verdict: rapid.SampledFrom([]view.Verdict{view.Eligible, view.Degraded, view.Ineligible, view.Unknown}).Draw(t, "verdict"), HealthUnknown: rapid.Bool().Draw(t, "unknown"),
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "marks") {
			c.Marks = append(c.Marks, view.ZoneMark{
				Group: text.Draw(t, "group"), Zone: text.Draw(t, "zone"), DegradedConfidence: rapid.Bool().Draw(t, "marked"),
				Counted: rapid.IntRange(0, 99).Draw(t, "counted"), In: rapid.IntRange(0, 99).Draw(t, "in"),
			})
		}
		got, err := wire.Change(over(t, wire.ChangeProto(c, e), new(pb.ViewChange)), "r", e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatalf("the change changed on its way:\n%s", diff)
		}
	})
	if _, err := wire.Change(&pb.ViewChange{Service: "a", Digest: []byte("short")}, "", view.Epoch{}); err == nil {
		t.Error("read a digest of five bytes")
	}
}

func TestARouteKeepsItsDigestOverTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := routes().Draw(t, "route")
		if rapid.Bool().Draw(t, "empty") && len(r.Splits) > 0 {
			r.Splits[0].Allowed = []string{} // empty and absent are one
		}
		got := wire.Route(over(t, wire.RouteProto(r), new(pb.Route)))
		if view.DigestOf(got) != view.DigestOf(r) {
			t.Fatalf("digest of %+v differs from that of %+v", got, r)
		}
	})
}

func TestATemplateComesBackAsItWent(t *testing.T) {
	for name, tmpl := range map[string]service.Template{
		"zero": {},
		"all": {
			Command: []string{"serve", "$(PORT)"}, Artifact: "sha256:ab", Env: map[string]string{"A": "b"}, Dir: "/srv",
			ReadyPath: "/ready", User: "www", Concurrency: 7, RequestTimeout: time.Minute, Drain: 3 * time.Second,
			ReadyTimeout: 1500 * time.Millisecond, Group: "g", Handover: "exclusive", Idempotent: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := wire.Template(over(t, wire.TemplateProto(tmpl), new(pb.Template)))
			if diff := cmp.Diff(tmpl, got); diff != "" {
				t.Errorf("template changed on its way:\n%s", diff)
			}
		})
	}
}

func TestADigestThatCannotBeReadIsNamed(t *testing.T) {
	_, err := wire.Delta(&pb.RouteDelta{To: &pb.Version{Incarnation: "i", Epoch: 1, Counter: 2}, Digest: "xyz"})
	if err == nil {
		t.Fatal("read a digest of three letters")
	}
}

// FuzzDelta gives the reader whatever a peer may send.
func FuzzDelta(f *testing.F) {
	seed, err := proto.Marshal(wire.DeltaProto(view.Delta{
		To: view.Version{Incarnation: "i", Epoch: 1, Counter: 2}, Epoch: view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"},
		Changed: []view.Route{{Service: "a", Splits: []view.Split{{Revision: "a-00001", Percent: 100, Allowed: []string{"a-00001"}}}}},
	}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p pb.RouteDelta
		if proto.Unmarshal(b, &p) != nil {
			return
		}
		d, err := wire.Delta(&p)
		if err != nil {
			return
		}
		again, err := wire.Delta(wire.DeltaProto(d))
		if err != nil {
			t.Fatalf("cannot read what was just written: %v", err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Fatalf("delta changed on its way:\n%s", diff)
		}
	})
}
