package wire

import (
	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// TemplateProto makes the wire form.
func TemplateProto(t service.Template) *pb.Template {
	return &pb.Template{
		Command: t.Command, Artifact: t.Artifact, Env: t.Env, Dir: t.Dir,
		ReadyPath: t.ReadyPath, User: t.User, Concurrency: narrow(t.Concurrency),
		RequestTimeout: durationProto(t.RequestTimeout), Drain: durationProto(t.Drain),
		ReadyTimeout: durationProto(t.ReadyTimeout),
		Group:        t.Group, Handover: t.Handover, Idempotent: t.Idempotent,
	}
}

// Template reads the wire form; absent is the zero template.
func Template(p *pb.Template) service.Template {
	t := service.Template{
		Command: list(p.GetCommand()), Artifact: p.GetArtifact(), Dir: p.GetDir(),
		ReadyPath: p.GetReadyPath(), User: p.GetUser(), Concurrency: int(p.GetConcurrency()),
		RequestTimeout: p.GetRequestTimeout().AsDuration(), Drain: p.GetDrain().AsDuration(),
		ReadyTimeout: p.GetReadyTimeout().AsDuration(),
		Group:        p.GetGroup(), Handover: p.GetHandover(), Idempotent: p.GetIdempotent(),
	}
	if len(p.GetEnv()) > 0 {
		t.Env = p.GetEnv()
	}
	return t
}
