package cli

import (
	"cmp"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// described is a document together with the local file that it names, if any.
type described struct {
	document
	file *artifact
}

// describe finds the file that the document's program is, beside the document.
func describe(d document, folder string) (described, error) {
	command := d.command()
	if len(command) > 0 && strings.Contains(command[0], "/") && !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(folder, command[0])
		if !strings.Contains(command[0], "/") {
			command[0] = "./" + command[0]
		}
	}
	file, err := localFile(command)
	return described{document: d, file: file}, err
}

// command is the program with all its arguments.
func (d document) command() []string {
	c := d.Spec.Template.Spec.Containers[0]
	return slices.Concat(c.Command, c.Args)
}

// template says all of it: what the document leaves out has its default.
func (d described) template() (service.Template, error) {
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	t := service.Template{
		Command: d.command(), Dir: c.WorkingDir, ReadyPath: c.ReadinessProbe.HTTPGet.Path, User: d.Fairlead.User,
		Concurrency: spec.ContainerConcurrency, RequestTimeout: seconds(spec.TimeoutSeconds),
		Drain: time.Duration(d.Fairlead.Drain), ReadyTimeout: time.Duration(d.Fairlead.ReadyTimeout),
		Group: d.Fairlead.RequestGroup, Handover: d.Fairlead.Handover, Idempotent: d.Fairlead.Idempotent,
	}
	if d.file != nil {
		t.Command[0], t.Artifact = filepath.Base(d.file.path), d.file.digest
	}
	for _, e := range c.Env {
		if _, twice := t.Env[e.Name]; twice {
			return t, fault.New(fault.Invalid, "", "environment variable %s of service %s is given twice", e.Name, d.Metadata.Name)
		}
		if t.Env == nil {
			t.Env = map[string]string{} // :: name → value
		}
		t.Env[e.Name] = e.Value
	}
	return t, t.Check()
}

// request is the deploy that makes the service what the document says. Traffic
// and the number of instances stay where the document does not say them.
func (d described) request(base *fairleadv1.Service) (*fairleadv1.DeployRequest, error) {
	t, err := d.template()
	if err != nil {
		return nil, err
	}
	return &fairleadv1.DeployRequest{
		Service: d.Metadata.Name, ExpectedGeneration: base.GetGeneration(), Template: templateTo(t), Instances: d.instances(),
		HostNames: d.Fairlead.HostNames, By: whoami(), SetTraffic: len(d.Spec.Traffic) > 0, Traffic: d.targets(),
	}, nil
}

func (d document) targets() []*fairleadv1.TrafficTarget {
	var out []*fairleadv1.TrafficTarget
	for _, t := range d.Spec.Traffic {
		out = append(out, &fairleadv1.TrafficTarget{Revision: t.RevisionName, Percent: int32(min(max(t.Percent, -1), 101)), Tag: t.Tag})
	}
	return out
}

// wanted is the service as it would stand: what base has and the document does
// not say is kept.
func (d described) wanted(base *fairleadv1.Service) (*fairleadv1.Service, error) {
	t, err := d.template()
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.Service{
		Service: d.Metadata.Name, Template: templateTo(t), HostNames: slices.Sorted(slices.Values(d.Fairlead.HostNames)),
		Instances: cmp.Or(d.instances(), base.GetInstances(), 1), Traffic: base.GetTraffic(),
	}
	if len(d.Spec.Traffic) > 0 {
		out.Traffic = d.targets()
	}
	if all := out.GetTraffic(); len(all) == 1 && all[0].GetRevision() == "" && all[0].GetPercent() == 100 && all[0].GetTag() == "" {
		out.Traffic = nil // which is what no traffic at all says
	}
	return out, nil
}

// instances and seconds stay within what numbers of the API can say; what is
// too much is refused by the rules.
func (d document) instances() int32 {
	return int32(min(d.Fairlead.Instances, math.MaxInt32))
}

func seconds(n int) time.Duration {
	return time.Duration(min(max(n, -1), math.MaxInt32)) * time.Second
}
