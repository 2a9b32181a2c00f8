package httpapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func templateOf(t *fairleadv1.Template) service.Template {
	return service.Template{
		Command:        t.GetCommand(),
		Artifact:       t.GetArtifact(),
		Env:            t.GetEnv(),
		Dir:            t.GetDir(),
		ReadyPath:      t.GetReadyPath(),
		User:           t.GetUser(),
		Concurrency:    int(t.GetConcurrency()),
		RequestTimeout: t.GetRequestTimeout().AsDuration(),
		Drain:          t.GetDrain().AsDuration(),
		ReadyTimeout:   t.GetReadyTimeout().AsDuration(),
		Group:          t.GetGroup(),
		Handover:       t.GetHandover(),
		Idempotent:     t.GetIdempotent(),
	}
}

func templateTo(t service.Template) *fairleadv1.Template {
	return &fairleadv1.Template{
		Command:        t.Command,
		Artifact:       t.Artifact,
		Env:            t.Env,
		Dir:            t.Dir,
		ReadyPath:      t.ReadyPath,
		User:           t.User,
		Concurrency:    int32(t.Concurrency),
		RequestTimeout: duration(t.RequestTimeout),
		Drain:          duration(t.Drain),
		ReadyTimeout:   duration(t.ReadyTimeout),
		Group:          t.Group,
		Handover:       t.Handover,
		Idempotent:     t.Idempotent,
	}
}

func serviceTo(d service.Desired) *fairleadv1.Service {
	return &fairleadv1.Service{
		Service:    d.Service,
		Generation: d.Generation,
		Deleted:    d.Deleted,
		Template:   templateTo(d.Template),
		Instances:  int32(d.Instances),
		HostNames:  d.HostNames,
		Round:      d.Round,
		By:         d.By,
		At:         timestamp(d.At),
		Paused:     d.Paused,
		Traffic:    targetsTo(d.Traffic),
	}
}

func targetsTo(all []service.Target) []*fairleadv1.TrafficTarget {
	var out []*fairleadv1.TrafficTarget
	for _, t := range all {
		out = append(out, &fairleadv1.TrafficTarget{Revision: t.Revision, Percent: int32(t.Percent), Tag: t.Tag})
	}
	return out
}

// duration is absent for zero, which means the default.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
