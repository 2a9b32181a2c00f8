package cli

import (
	"fmt"
	"maps"
	"slices"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type diffCmd struct {
	documentFlag
	ShowEnv bool `name:"show-env" help:"Show the values of environment variables too."`
}

// difference of one field between what stands and what a document says.
type difference struct {
	Service string `json:"service"`
	Field   string `json:"field"`
	Stands  string `json:"stands"`
	Wanted  string `json:"wanted"`
}

// Run compares, and exits with 1 where something differs.
func (cmd *diffCmd) Run(c *call) error {
	all, err := cmd.read(c)
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	out := []difference{}
	for _, d := range all {
		base, err := c.standing(cl, d.Metadata.Name)
		if err != nil {
			return err
		}
		base = standingOf(base)
		next, err := d.wanted(base)
		if err != nil {
			return err
		}
		out = append(out, differences(d.Metadata.Name, fields(base, cmd.ShowEnv), fields(next, cmd.ShowEnv))...)
	}
	if err := c.tellDifferences(out); err != nil {
		return err
	}
	if len(out) > 0 {
		return exitError{ExitFailed}
	}
	return nil
}

func (c *call) tellDifferences(all []difference) error {
	for i := range all {
		all[i].Stands, all[i].Wanted = shown(all[i].Stands), shown(all[i].Wanted)
	}
	if !c.out.table() {
		return c.out.value(all)
	}
	last := ""
	for _, d := range all {
		if d.Service != last {
			last = d.Service
			c.out.line("%s", d.Service)
		}
		d.Stands, d.Wanted = plain(d.Stands), plain(d.Wanted)
		if d.Stands != "" {
			c.out.line("%s", c.out.paint(red, fmt.Sprintf("- %-16s %s", d.Field, d.Stands)))
		}
		if d.Wanted != "" {
			c.out.line("%s", c.out.paint(green, fmt.Sprintf("+ %-16s %s", d.Field, d.Wanted)))
		}
	}
	return nil
}

// concealed begins a value that is compared and not shown.
const concealed = "\x00"

func shown(value string) string {
	if len(value) > 0 && value[:1] == concealed {
		return hidden
	}
	return value
}

// fields :: field → what it says; what is not said has none.
func fields(s *fairleadv1.Service, showEnv bool) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	t := s.GetTemplate()
	for k, v := range t.GetEnv() {
		switch {
		case !showEnv:
			v = concealed + v
		case v == "":
			v = `""`
		}
		out["env "+k] = v
	}
	for _, r := range serviceRows(s) {
		if r[0] != "env" && r[1] != "" {
			out[r[0]] = r[1]
		}
	}
	return out
}

func differences(name string, stands, wants map[string]string) []difference {
	both := maps.Clone(stands)
	maps.Copy(both, wants)
	var out []difference
	for _, field := range slices.Sorted(maps.Keys(both)) {
		if stands[field] != wants[field] {
			out = append(out, difference{Service: name, Field: field, Stands: stands[field], Wanted: wants[field]})
		}
	}
	return out
}
