package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

func TestCallersOfAZoneThatFailEverywhereAreChargedByWhatTheirResolversTell(t *testing.T) {
	data := folder(t)
	control, api := startControl(t, data, anyPort)
	ops := "http://" + control.waitFor(`ops http://([0-9.:]+)/`)[1]
	args := []string{"external", "set", "pay"}
	for _, port := range []string{"9", "10", "11"} {
		args = append(args, "--endpoint", "127.0.0.1:"+port)
	}
	if err := until(t.Context(), func() bool { code, _, _ := fairlead(t, data, args...); return code == 0 }); err != nil {
		t.Fatal(err)
	}
	callers := map[string]*resolver.Resolver{} // :: zone → in it
	for _, zone := range []string{"a", "b", "c"} {
		r, err := resolver.Open(t.Context(), resolver.Config{
			StateDir: t.TempDir(), Services: []string{"pay"}, Plane: []string{api}, Identity: callerAt(t, data, "shop-"+zone), Zone: zone, Revision: "shop-00001", FirstView: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		if err := r.Await(t.Context(), "pay"); err != nil {
			t.Fatal(err)
		}
		callers[zone] = r
	}
	call := time.NewTicker(5 * time.Millisecond)
	defer call.Stop()
	text := ""
	for end, n := time.Now().Add(time.Minute), 0; !strings.Contains(text, `fairlead_discovery_alarms{alarm="callers",service="pay"} 1`); n++ {
		if time.Now().After(end) {
			t.Fatal("nobody is charged")
		}
		<-call.C
		for zone, r := range callers {
			p, err := r.Pick("pay")
			if err != nil {
				t.Fatal(err)
			}
			outcome := resolver.Good
			if zone == "b" {
				outcome = resolver.Failed
			}
			p.Done(outcome)
		}
		if n%100 == 0 {
			_, text = get(t, ops+"/metrics")
		}
	}
	if _, out, _ := fairlead(t, data, "instances", "pay"); strings.Contains(out, "ineligible") {
		t.Errorf("what is b's is charged to instances:\n%s", out)
	}
}
