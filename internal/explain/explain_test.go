package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// section's lines, joined.
func (r Report) section(title string) string {
	for _, s := range r.Sections {
		if s.Title == title {
			return strings.Join(s.Lines, "\n")
		}
	}
	return ""
}

func says(t *testing.T, r Report, title string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if got := r.section(title); !strings.Contains(got, want) {
			t.Errorf("%s says\n%s\nwithout %q", title, got, want)
		}
	}
}

// settled are facts in which all agree.
func settled() Facts {
	f := facts()
	f.Snapshot.Desired.Value.Generation, f.Snapshot.Intent = 1, "digest of one"
	f.Snapshot.Revisions, f.World.Of = f.Snapshot.Revisions[:1], map[string][]service.Instance{}
	f.runs(1, service.Instance{ID: "i1", State: service.InstanceLive, Pid: 4711})
	return f
}

func TestWhereAllAgreeItIsSaid(t *testing.T) {
	r := Explain(settled())
	if r.Summary != "shop-00001 serves all traffic, and all agree" {
		t.Errorf("summary: %s", r.Summary)
	}
	says(t, r, "differences", "none: desired, catalog, routes, gateways and processes agree", "next: nothing is to be done")
	says(t, r, "to do", "nothing")
}

func TestRoutesThatDifferFromTheCatalogAreLostOrKeptByWhatAnswers(t *testing.T) {
	f := settled()
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 25, Value: service.Routes{Service: "shop", Plan: plan(2)}}
	says(t, Explain(f), "differences", "the catalog wins, since its revision answers", "next: repair-routes")

	f = facts()
	f.Snapshot.Desired.Value.Generation, f.Snapshot.Intent = 1, "digest of one"
	f.Snapshot.Routes = service.Doc[service.Routes]{Version: 25, Value: service.Routes{Service: "shop", Plan: plan(2)}}
	f.runs(1, service.Instance{ID: "i1", State: service.InstanceExited})
	r := Explain(f)
	says(t, r, "differences", "the routes win for now", "until an operator has settled")
	says(t, r, "to do", "needs an operator: the routes", "have it recorded (fairlead traffic shop shop-00002=100)")
	if !strings.HasPrefix(r.Summary, "it needs an operator: ") {
		t.Errorf("summary: %s", r.Summary)
	}
}

func TestAServiceThatOnlyAGatewayRemembersIsExplained(t *testing.T) {
	f := facts()
	f.Snapshot = &service.Snapshot{Service: "shop"}
	f.World.Gateways[0].State.Refused = map[string]string{"shop": view.ReasonOrphaned + "absent without a tombstone"}
	r := Explain(f)
	if r.Summary != "this store does not know it, and gateway gw-1 serves it" {
		t.Errorf("summary: %s", r.Summary)
	}
	says(t, r, "differences", "the gateway wins until a person deletes the service")
	says(t, r, "to do", "fairlead delete shop")
}

func TestWhatIsPausedPinnedRefusedOrWarmSaysWhatToDo(t *testing.T) {
	f := settled()
	f.Snapshot.Desired.Value.Paused = true
	says(t, Explain(f), "to do", "it is paused: fairlead resume shop")

	f = settled()
	f.Snapshot.Desired.Value.Traffic = []service.Target{{Revision: "shop-00001", Percent: 100}}
	says(t, Explain(f), "to do", "to move it: fairlead traffic shop LATEST=100")
	says(t, Explain(f), "desired", "pinned: a new revision gets 0%")

	f = settled()
	f.World.Gateways[0].State.Refused = map[string]string{"shop": "group is not known"}
	says(t, Explain(f), "gateways", "it refuses what was published: group is not known")
	says(t, Explain(f), "to do", "gateway gw-1 refuses the published route")

	f = facts()
	f.Snapshot.Catalog.Value.Warm, f.Snapshot.Catalog.Value.WarmUntil = "shop-00002", now.Add(time.Minute)
	says(t, Explain(f), "revisions", "kept warm until 2026-03-14 15:10:26")
}

func TestARecordThatCannotBeReadIsNamed(t *testing.T) {
	f := facts()
	f.Snapshot.Catalog = service.Doc[service.Catalog]{}
	f.Snapshot.Broken = []service.Broken{{Kind: service.KindCatalog, Name: "shop", Version: 12, Problem: "unexpected end"}}
	r := Explain(f)
	says(t, r, "catalog", "catalog shop (version 12) cannot be read: unexpected end")
	says(t, r, "to do", "needs an operator: the catalog record shop", "correct or remove it")
}

func TestAParkedSagaIsNamedAndHoldsOnlyItsService(t *testing.T) {
	f := facts()
	f.deploy(saga.Record{State: saga.Parked, Attempt: 1, Error: "its definition is newer"}, "routes", "")
	says(t, Explain(f), "saga", "parked: its definition is newer")
	says(t, Explain(f), "to do", "needs an operator: saga shop.deploy")
}

func TestWhoDoesNotLeadSaysThatHeKnowsLess(t *testing.T) {
	f := settled()
	f.Leading = false
	for i := range f.World.Gateways {
		f.World.Gateways[i].State = nil
	}
	says(t, Explain(f), "gateways", "this control does not lead", "was last known to serve")
	says(t, Explain(f), "processes", "this control does not lead")
}

func TestAGatewayThatServesOtherRoutesThanItsTablesNumberSaysIsExplained(t *testing.T) {
	f := settled()
	g := f.World.Gateways[0].State
	g.Drifted, g.Drifts = true, 1
	r := Explain(f)
	says(t, r, "gateways", "it does not serve what was published under that number: it is sent the whole table")
	says(t, r, "differences", "gateway gw-1 serves other routes than were published under the number of its table: what is published wins")
	says(t, r, "revisions", "gateway gw-1 holds routes that this store does not know")
	g.Drifted = false
	r = Explain(f)
	says(t, r, "gateways", "it was found once, since the leader began, to serve other routes")
	says(t, r, "differences", "none: ")
}
