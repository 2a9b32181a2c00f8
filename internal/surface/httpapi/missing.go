package httpapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// sight is one member as it was last heard.
type sight struct {
	connected bool
	silent    time.Duration
}

// missing says at once what a deploy will wait for, or fail without. A store
// that cannot be read tells nothing here.
func (a *API) missing(ctx context.Context) []string {
	hosts := map[string]sight{} // :: host name → as last heard
	for _, h := range a.Hosts.States() {
		hosts[h.Name] = sight{h.Connected, h.Silent}
	}
	gateways := map[string]sight{} // :: gateway name → as last heard
	for _, g := range a.Gateways.States() {
		gateways[g.Name] = sight{g.Connected, g.Silent}
	}
	var out []string
	if known, err := a.members(ctx); err == nil {
		names := make([]string, 0, len(known))
		for _, h := range known {
			names = append(names, h.Name)
		}
		out = append(out, nobody("host", "nothing can be started", names, hosts)...)
	}
	if known, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil); err == nil {
		names := make([]string, 0, len(known))
		for _, g := range known {
			names = append(names, g.Name)
		}
		out = append(out, nobody("gateway", "no traffic can be moved", names, gateways)...)
	}
	return out
}

// nobody says that none of a role is connected; nothing where one is.
func nobody(role, effect string, names []string, heard map[string]sight) []string {
	for _, s := range heard {
		if s.connected {
			return nil
		}
	}
	if len(names) == 0 {
		return []string{fmt.Sprintf("no %s is known, so %s until one joins: fairlead token create --role %s", role, effect, role)}
	}
	for i, n := range names {
		if s, ok := heard[n]; ok {
			names[i] = fmt.Sprintf("%s was last heard %s ago", n, s.silent.Round(time.Second))
		} else {
			names[i] = n + " was not heard since control started"
		}
	}
	return []string{fmt.Sprintf("no %s is connected, so %s until one is: %s", role, effect, strings.Join(names, ", "))}
}
