package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

// A name that joined before joins again by a token that is bound to it, and by no other.
func TestWhoIsToldToMakeATokenIsToldForWhichName(t *testing.T) {
	const want = "fairlead token create --role host --name h1"
	for _, j := range []cli.Joining{{Name: "h1"}, {Name: "h1", TokenFile: "token"}} {
		if hint := tokenHint(j, identity.Host); !strings.Contains(hint, "`"+want+"`") {
			t.Errorf("the hint is %q", hint)
		}
	}
	none := &trust{role: identity.Host, name: "h1", token: func(context.Context) (string, error) { return "", nil }}
	if hint := fault.HintOf(none.try(t.Context())); !strings.Contains(hint, "`"+want+"`") {
		t.Errorf("the hint is %q", hint)
	}
}
