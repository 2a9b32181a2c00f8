package wire

import (
	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// WordProto makes the wire form; the zero word is absent.
func WordProto(w service.Word) *pb.WorkloadWord {
	if w.Equal(service.Word{}) {
		return nil
	}
	p := &pb.WorkloadWord{Unready: w.Unready, Draining: w.Draining}
	for _, d := range w.Dependencies {
		p.Dependencies = append(p.Dependencies, &pb.DependencyWord{Name: d.Name, Degraded: uint32(max(d.Degraded, 0)), Detail: d.Detail})
	}
	return p
}

// Word reads the wire form; absent is the zero word. What cannot be said is
// left out.
func Word(p *pb.WorkloadWord) service.Word {
	w := service.Word{Unready: p.GetUnready(), Draining: p.GetDraining()}
	for _, d := range p.GetDependencies() {
		w.Dependencies = append(w.Dependencies, service.DependencyWord{Name: d.GetName(), Degraded: int(min(d.GetDegraded(), 1<<20)), Detail: d.GetDetail()})
	}
	if w.Check() != nil {
		w.Dependencies = nil
	}
	return w
}
