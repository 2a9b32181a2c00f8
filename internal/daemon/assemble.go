package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
	"github.com/fairlead-platform/fairlead/view"
)

// assemble joins the leader, its ports to the world, and the API over them.
func (c *controlRole) assemble() {
	c.hosts = attach.New(attach.Config{
		PeerName: peerName, Logger: c.p.log.With("part", "attach"), Artifacts: c.artifact,
		Relays: func() []string { return c.views.Doors().Relays },
		Admit: func(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, error) {
			return c.leader.AdmitHost(ctx, h, kept)
		},
	})
	c.gateways = stream.New(stream.Config{
		PeerName: peerName, Log: c.p.log.With("part", "stream"),
		Admit: func(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
			return c.leader.AdmitGateway(ctx, g)
		},
		Goodbye: func(ctx context.Context, name string) error { return c.leader.GatewayGoodbye(ctx, name) },
	})
	refusals := newRefusals(c.p.ops.Registry())
	c.views = views.New(views.Config{
		Refused: refusals.subscription,
		Peer:    peerRole, Log: c.p.log.With("part", "views"), Leader: func() string { return c.leader.Leader().Address },
	})
	c.p.ops.Registry().MustRegister(c.views.Collector())
	c.discovery = discovery.New(discovery.Config{
		Store: c.store, Bucket: c.bucket, Hosts: c.hosts, Views: c.views, Logger: c.p.log.With("part", "discovery"), Metrics: c.p.ops.Registry(),
	})
	c.witness = witness.New(witness.Config{PeerName: peerName, Reporter: c.reporter, Merged: c.merged, Probing: c.probing()})
	c.leader = control.New(wired(control.Config{
		Store: c.store, Hosts: c.hosts, Gateways: c.gateways, Verdicts: verdicts{c.discovery}, Callers: c.discovery, Name: processName(), LockIsLease: !c.shared(),
		Address: advertised(c.plane.Advertise, c.listening), SetGateways: c.hosts.SetGateways, Turned: c.turned,
		Beside: c.beside,
		Dwell:  c.plane.ReadyDwell, Logger: c.p.log.With("part", "control"), Metrics: c.p.ops.Registry(),
	}))
	c.drills = newDrills(c)
	c.api = httpapi.New(httpapi.Config{
		Drills: c.drills,
		Store:  c.store, Bucket: c.bucket, Hosts: c.hosts, Gateways: gatewayReader{c}, Logs: logReader{c.hosts}, Leader: leaderReader{c.leader, c.store, c.discovery}, Discovery: c.discovery, Views: c.views, Runtime: c.discovery, Registry: c.discovery,
		Authority: c.authority, MaxArtifacts: c.plane.MaxArtifacts, NewID: newID, Rand: rand.Reader, Version: c.p.Version, Log: c.p.log.With("part", "api"),
		Refused: refusals.query, Refusals: c.refusals,
	})
	c.artifacts = newArtifactMetrics(c.p.ops.Registry())
	c.way = newWay(c)
	c.p.ops.Check("control", c.ready)
	c.p.ops.Check("artifacts", c.bucket.Health)
	if st, ok := c.store.(interface{ Health() error }); ok {
		c.p.ops.Check("store", st.Health)
	}
}

// reporter takes in what a caller saw of instances.
func (c *controlRole) reporter(ctx context.Context) (func(*fairleadv1.ReportOutcomesRequest) bool, error) {
	who, err := reporting(ctx)
	if err != nil {
		return nil, err
	}
	r := c.discovery.Reporter(who)
	return func(m *fairleadv1.ReportOutcomesRequest) bool {
		calls := uint64(0)
		seen := make([]discovery.Outcome, len(m.GetRows()))
		for i, o := range m.GetRows() {
			calls += min(o.GetBytes(), mostCalled)
			seen[i] = discovery.Outcome{Instance: o.GetInstance(), OK: o.GetOk(), Failed: o.GetFailed(), Refused: o.GetRefused(), Unanswered: o.GetUnanswered()}
		}
		r.Weighed(uint64(proto.Size(m)), calls)
		r.From(evidence.Caller{Zone: m.GetZone(), Revision: m.GetRevision()})
		return r.Take(m.GetNumber(), seen)
	}, nil
}

// reporting is by what reporters are told apart, here and at relays.
func reporting(ctx context.Context) (string, error) {
	role, name, err := peerRole(ctx)
	who := role + "/" + name
	if host := identity.PeerFromContext(ctx).HeldBy; host != "" {
		who += "@" + host
	}
	return who, err
}

// merged takes in what those saw of instances who report to a relay.
func (c *controlRole) merged(context.Context) (func(*fairleadv1.ReportMergedRequest) bool, error) {
	r := c.discovery.Relay()
	return func(m *fairleadv1.ReportMergedRequest) bool {
		seen := make([]discovery.MergedOutcome, len(m.GetRows()))
		for i, o := range m.GetRows() {
			seen[i] = discovery.MergedOutcome{
				Instance: o.GetInstance(), OK: o.GetOk(), Failed: o.GetFailed(), Compared: o.GetCompared(), Expected: o.GetExpected(),
				Reporters: o.GetReporters(), Hurt: o.GetHurt(), Refusing: o.GetRefusing(),
				Apart: witness.Apart(o),
			}
		}
		r.Weighed(m.GetBytes(), min(m.GetCalls(), mostCalled*uint64(len(seen))))
		return r.Take(discovery.MergedSecond{Number: m.GetNumber(), Reports: m.GetReporters(), Callers: m.GetCallers(), Groups: witness.Groups(m.GetGroups()), Seen: seen})
	}, nil
}

// mostCalled bytes of one instance in a second can be honest.
const mostCalled = 1 << 40

// ready: it leads, or stands by beside a leader that is heard.
func (c *controlRole) ready() error {
	other := c.leader.Leader()
	switch {
	case c.leader.Leading(), c.leader.IsAbsent(), other.Holder != "" && other.Quiet < heardFor:
		return nil
	case other.Holder != "":
		return fmt.Errorf("this control does not lead, and %s has not renewed its lease for %s", other.Holder, other.Quiet.Round(time.Second))
	}
	return errors.New("this control does not lead, and knows of none that does")
}

// heardFor is how old the last renewal of a living leader can be: it renews
// each second, and is looked at each second.
const heardFor = 3 * time.Second

func newID() string { return ulid.Make().String() }

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// peerName is the name in the identity that the guard let through.
func peerName(ctx context.Context) (string, error) {
	p := identity.PeerFromContext(ctx)
	if p.Anonymous() {
		return "", errors.New("the peer showed no identity")
	}
	return p.ID.Name, nil
}

// peerRole is the role and the name in that identity.
func peerRole(ctx context.Context) (role, name string, err error) {
	name, err = peerName(ctx)
	return string(identity.PeerFromContext(ctx).ID.Role), name, err
}

// artifact opens an artifact by digest, for hosts.
func (c *controlRole) artifact(ctx context.Context, digest string) (io.ReadCloser, error) {
	r, _, err := c.bucket.Open(ctx, httpapi.ArtifactName(digest))
	return r, err
}

type logReader struct{ *attach.Server }

func (l logReader) Logs(ctx context.Context, q service.LogQuery, emit func([]service.LogLine) error) error {
	return l.StreamLogs(ctx, q, emit)
}

// gatewayReader tells of the gateways that follow here; while standing by, of
// those that the store knows, as not connected.
type gatewayReader struct{ c *controlRole }

func (g gatewayReader) States() []service.GatewayState {
	if g.c.leader.Leading() {
		return g.c.gateways.States()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	docs, _, err := g.c.store.List(ctx, service.KindGateway)
	if err != nil {
		g.c.p.log.Warn("cannot list the gateways", "error", err)
	}
	out := make([]service.GatewayState, 0, len(docs))
	for _, d := range docs {
		var known service.Gateway
		if json.Unmarshal(d.Body, &known) == nil { // one that cannot be read is the leader's to tell of
			out = append(out, service.GatewayState{Name: known.Name, Poll: known.Poll, Public: known.Public, Serves: known.Serves, Keeps: known.Keeps})
		}
	}
	return out
}

type leaderReader struct {
	*control.Control
	store     store.Store
	discovery *discovery.Plane
}

// Alarms are the installation's, or what only a person can settle of a service.
func (l leaderReader) Alarms(name string) []string {
	if name == "" {
		alarms := append(l.Control.Alarms(), l.discovery.Alarms()...)
		if l.IsAbsent() {
			alarms = append(alarms, "a drill keeps control away: it answers no stream and leads nothing; fairlead drill end ends it")
		} else if !l.Leading() {
			alarms = append(alarms, standing(l.Leader()))
		}
		if disk, ok := l.store.(interface{ Full() bool }); ok && disk.Full() {
			alarms = append(alarms, "the disk of the store is full: until there is room only deletions and returns to an earlier route are recorded")
		}
		if st, ok := l.store.(interface{ Health() error }); ok {
			if err := st.Health(); err != nil {
				alarms = append(alarms, err.Error())
			}
		}
		return alarms
	}
	var alarms []string
	if text := l.NeedsOperator(name); text != "" {
		alarms = append(alarms, text)
	}
	for _, a := range l.discovery.ServiceAlarms(name) {
		alarms = append(alarms, fmt.Sprintf("%s (since %s)", a.Text, a.Since.Format("15:04:05 UTC")))
	}
	return alarms
}
