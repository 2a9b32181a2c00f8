package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
)

// turned is told when this control begins to lead and when it ends: whoever
// follows a leader that is none any more is sent to look for the other.
func (c *controlRole) turned(leads bool) {
	if leads {
		c.hosts.Lead()
		c.gateways.Lead()
	} else {
		const reason = "this control leads no more"
		c.hosts.Depose(reason)
		c.gateways.Dismiss(reason, "") // who is next is not known yet
	}
	switch {
	case !c.shared():
	case leads:
		c.p.say("this control leads")
	default:
		c.p.say("this control leads no more")
	}
}

// standing says for people what one that stands by knows.
func standing(l control.Leader) string {
	switch {
	case l.Holder == "":
		return "this control stands by, and knows of none that leads"
	case l.Quiet >= heardFor:
		return fmt.Sprintf("this control stands by: %s at %s led, and has not renewed its lease for %s", l.Holder, l.Address, l.Quiet.Round(time.Second))
	}
	return fmt.Sprintf("this control stands by: %s leads, at %s", l.Holder, l.Address)
}

// advertised is where others reach what listens here. A name is better than
// an address that means every machine.
func advertised(named, listening string) string {
	if named != "" {
		return named
	}
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return listening
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return listening
}

// way leads to the leader: what only it knows (what runs, what is heard) is
// asked of it by a control that stands by, on behalf of whom it has let in.
// All else works on the store, and is answered here.
type way struct {
	c         *controlRole
	transport *http.Transport
	refuse    *connect.ErrorWriter
}

// passed marks what came by another control, so that none is asked in a circle.
const passed = "Fairlead-Passed-On"

const (
	dialLeader = 2 * time.Second
	askLeader  = 10 * time.Second
)

func newWay(c *controlRole) *way {
	w := &way{c: c, refuse: connect.NewErrorWriter()}
	w.transport = &http.Transport{DialTLSContext: w.dial, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return w
}

func (w *way) close() { w.transport.CloseIdleConnections() }

// dial shows the operator's credential of this data folder, which is renewed.
func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	cfg, err := identity.OperatorTLS(w.c.p.Data)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: dialLeader}, Config: cfg}).DialContext(ctx, network, address)
}

// live are the procedures that only the leader can answer, and whether each
// goes on for as long as the caller wants.
func live() map[string]bool { // :: procedure → goes on
	return map[string]bool{
		fairleadv1connect.ServiceAPIServiceGetStatusProcedure:         false,
		fairleadv1connect.ServiceAPIServiceListServicesProcedure:      false,
		fairleadv1connect.ServiceAPIServiceStreamLogsProcedure:        true,
		fairleadv1connect.ServiceAPIServiceExplainServiceProcedure:    false,
		fairleadv1connect.ServiceAPIServiceDeleteRevisionProcedure:    false,
		fairleadv1connect.ServiceAPIServiceListInstancesProcedure:     false,
		fairleadv1connect.ServiceAPIServiceExplainInstanceProcedure:   false,
		fairleadv1connect.DiscoveryAPIServiceListFlapsProcedure:       false,
		fairleadv1connect.DiscoveryAPIServicePrepareDrillProcedure:    false,
		fairleadv1connect.DiscoveryAPIServiceStartDrillProcedure:      false,
		fairleadv1connect.DiscoveryAPIServiceGetDrillProcedure:        false,
		fairleadv1connect.DiscoveryAPIServiceEndDrillProcedure:        false,
		fairleadv1connect.DiscoveryAPIServiceListSubscribersProcedure: false,
		fairleadv1connect.DiscoveryAPIServiceGetPropagationProcedure:  false,
		fairleadv1connect.DiscoveryAPIServiceListRoutersProcedure:     false,
		fairleadv1connect.DiscoveryAPIServiceTestContractProcedure:    false,
		fairleadv1connect.DiscoveryAPIServiceDiffRuntimeProcedure:     false,
		fairleadv1connect.ResolveServiceResolveProcedure:              false,
		fairleadv1connect.RegistryServiceRegisterProcedure:            false,
		fairleadv1connect.RegistryServiceRenewLeaseProcedure:          false,
		fairleadv1connect.RegistryServiceDeregisterProcedure:          false,
		fairleadv1connect.DiscoveryAPIServiceDecideGuardProcedure:     false,
		fairleadv1connect.ServiceAPIServiceGetContractProcedure:       false,
		fairleadv1connect.ServiceAPIServiceSetContractProcedure:       false,
		fairleadv1connect.DiscoveryAPIServiceGetPolicyProcedure:       false,
		fairleadv1connect.DiscoveryAPIServiceSetPolicyProcedure:       false,
		fairleadv1connect.AdminAPIServiceListGatewaysProcedure:        false,
		fairleadv1connect.AdminAPIServiceListHostsProcedure:           false,
		fairleadv1connect.AdminAPIServiceListProbersProcedure:         false,
		fairleadv1connect.AdminAPIServiceRetireGatewayProcedure:       false,
		fairleadv1connect.AdminAPIServiceRetireHostProcedure:          false,
		fairleadv1connect.AdminAPIServiceDrainHostProcedure:           false,
		fairleadv1connect.AdminAPIServiceUndrainHostProcedure:         false,
	}
}

// through passes on to the leader what is the leader's, while this control
// stands by, and has everything else answered here.
func (w *way) through(here http.Handler) http.Handler {
	procedures := live()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		goesOn, theirs := procedures[r.URL.Path]
		if !theirs || !w.c.shared() || w.c.leader.Leading() {
			here.ServeHTTP(rw, r)
			return
		}
		leader := w.c.leader.Leader()
		if leader.Address == "" || r.Header.Get(passed) != "" {
			w.fail(rw, r, errors.New(standing(leader)))
			return
		}
		if !goesOn {
			ctx, cancel := context.WithTimeout(r.Context(), askLeader)
			defer cancel()
			r = r.WithContext(ctx)
		}
		w.proxy(leader.Address).ServeHTTP(rw, r)
	})
}

func (w *way) proxy(address string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: address})
			p.Out.Header.Set(passed, processName())
			p.Out.Header.Set(httpapi.OnBehalf, identity.PeerFromContext(p.In.Context()).ID.String())
		},
		Transport: w.transport, FlushInterval: -1,
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) {
			w.fail(rw, r, fmt.Errorf("cannot ask the leader at %s: %w", address, err))
		},
	}
}

func (w *way) fail(rw http.ResponseWriter, r *http.Request, why error) {
	err := fault.New(fault.Unavailable, "ask again in some seconds, or another control by --api; deploy, get, revisions and events work meanwhile",
		"what runs is known to the leader only: %w", why)
	// A caller that has gone is told nothing.
	_ = w.refuse.Write(rw, r, fault.ToConnect(err))
}
