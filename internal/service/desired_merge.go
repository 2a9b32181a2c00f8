package service

import (
	"slices"
	"strings"
	"time"
)

// DeployFlags are the flags that a person gave; nil means not given, which
// keeps what stands.
type DeployFlags struct {
	// Command and the Artifact of its first word go together; an empty
	// Command keeps both.
	Command  []string
	Artifact string
	// Env entries are K=V, which adds or replaces, and K-, which removes.
	Env            []string
	Dir            *string
	HostNames      []string // replace the list; one empty name empties it
	ReadyPath      *string
	User           *string
	Concurrency    *int
	RequestTimeout *time.Duration
	Drain          *time.Duration
	ReadyTimeout   *time.Duration
}

// Merge returns the template and host names that result. A nil base, or a
// tombstone, is a new service.
func (f DeployFlags) Merge(base *Desired) (Template, []string, error) {
	var t Template
	var hosts []string
	if base != nil && !base.Deleted {
		t, hosts = base.Template.clone(), slices.Clone(base.HostNames)
	}
	if len(f.Command) > 0 {
		t.Command, t.Artifact = slices.Clone(f.Command), f.Artifact
	}
	if err := f.mergeEnv(&t); err != nil {
		return Template{}, nil, err
	}
	set(&t.Dir, f.Dir)
	set(&t.ReadyPath, f.ReadyPath)
	set(&t.User, f.User)
	set(&t.Concurrency, f.Concurrency)
	set(&t.RequestTimeout, f.RequestTimeout)
	set(&t.Drain, f.Drain)
	set(&t.ReadyTimeout, f.ReadyTimeout)
	if f.HostNames != nil {
		hosts = slices.DeleteFunc(slices.Clone(f.HostNames), func(h string) bool { return h == "" })
	}
	return t, hosts, nil
}

func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}

func (f DeployFlags) mergeEnv(t *Template) error {
	for _, e := range f.Env {
		name, value, assigned := strings.Cut(e, "=")
		if !assigned {
			removed, ok := strings.CutSuffix(e, "-")
			if !ok {
				return refuse("say "+name+"=VALUE to set it, "+name+"- to remove it", "--env %q sets and removes nothing", e)
			}
			delete(t.Env, removed)
			continue
		}
		if name == "" {
			return refuse("say NAME="+value, "an environment variable needs a name: --env %q has none", e)
		}
		if err := CheckEnvName(name); err != nil {
			return err
		}
		if t.Env == nil {
			t.Env = map[string]string{} // :: name → value
		}
		t.Env[name] = value
	}
	if len(t.Env) == 0 {
		t.Env = nil
	}
	return nil
}
