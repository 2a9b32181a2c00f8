package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// document is a service as a file says it: in the words of Knative's and Cloud
// Run's Service v1 where they have one, and in a block of our own where not.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec revisionSpec `json:"spec"`
		} `json:"template"`
		Traffic []trafficSpec `json:"traffic"`
	} `json:"spec"`
	Fairlead fairleadSpec `json:"fairlead"`
}

type revisionSpec struct {
	ContainerConcurrency int             `json:"containerConcurrency"`
	TimeoutSeconds       int             `json:"timeoutSeconds"`
	Containers           []containerSpec `json:"containers"`
}

type containerSpec struct {
	Command        []string  `json:"command"`
	Args           []string  `json:"args"`
	WorkingDir     string    `json:"workingDir"`
	Env            []envSpec `json:"env"`
	ReadinessProbe struct {
		HTTPGet struct {
			Path string `json:"path"`
		} `json:"httpGet"`
	} `json:"readinessProbe"`
}

type envSpec struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type trafficSpec struct {
	RevisionName   string `json:"revisionName"`
	LatestRevision bool   `json:"latestRevision"`
	Percent        int    `json:"percent"`
	Tag            string `json:"tag"`
}

// fairleadSpec is what the field's standard has no word for.
type fairleadSpec struct {
	Instances    int      `json:"instances"` // zero leaves the number
	HostNames    []string `json:"hostNames"`
	User         string   `json:"user"`
	Drain        duration `json:"drain"`
	ReadyTimeout duration `json:"readyTimeout"`
	RequestGroup string   `json:"requestGroup"`
	Handover     string   `json:"handover"`
	Idempotent   bool     `json:"idempotent"`
}

// duration is text such as "30s".
type duration time.Duration

// UnmarshalJSON takes a string only: a bare number has no unit.
func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("a duration is text with a unit, e.g. 30s, not %s", b)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: say e.g. 30s", text)
	}
	*d = duration(v)
	return nil
}

// apiVersions that a document may name.
func apiVersions() []string { return []string{"fairlead.dev/v1", "serving.knative.dev/v1"} }

// documents reads all that a file holds, or refuses it whole.
func documents(text []byte) ([]document, error) {
	var out []document
	names := map[string]bool{} // :: service name → read already
	for i, part := range parts(text) {
		d, empty, err := oneDocument(part)
		if empty {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if names[d.Metadata.Name] {
			return nil, fault.New(fault.Invalid, "say each service once", "document %d: service %s is described twice", i+1, d.Metadata.Name)
		}
		names[d.Metadata.Name] = true
		out = append(out, d)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "", "there is no document to read")
	}
	return out, nil
}

// parts splits at the lines that separate documents.
func parts(text []byte) [][]byte {
	var out [][]byte
	var part []byte
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimRight(line, " \t\r\n")
		if bytes.Equal(trimmed, []byte("---")) || bytes.HasPrefix(line, []byte("--- #")) {
			out, part = append(out, part), nil
			continue
		}
		part = append(part, line...)
	}
	return append(out, part)
}

func oneDocument(text []byte) (d document, empty bool, err error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return d, false, fault.New(fault.Invalid, "", "it is not YAML that can be read: %w", err)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return d, true, nil
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return d, false, fault.New(fault.Invalid, "", "it is not YAML that can be read: %w", err)
	}
	if bad := unknownFields("", tree, reflect.TypeFor[document]()); len(bad) > 0 {
		return d, false, fault.New(fault.Invalid, "docs/reference/service-document.md lists the fields that there are; remove what is not meant for Fairlead", "unknown field %s", strings.Join(bad, ", "))
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, false, mistyped(err)
	}
	return d, false, d.check()
}

func mistyped(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		hint := ""
		if wrong.Type.Kind() == reflect.String {
			hint = "put it into quotes"
		}
		what := "field " + wrong.Field
		if wrong.Field == "" {
			what = "a document"
		}
		return fault.New(fault.Invalid, hint, "%s takes the form of a %s, not of: %s", what, kindOf(wrong.Type), wrong.Value)
	}
	return fault.New(fault.Invalid, "", "%w", err)
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Struct:
		return "block"
	case reflect.Int:
		return "number"
	}
	return t.Kind().String()
}

// unknownFields are the paths in tree that t has no field for, in order.
func unknownFields(path string, tree any, t reflect.Type) []string {
	var out []string
	switch v := tree.(type) {
	case []any:
		for i, x := range v {
			if t.Kind() == reflect.Slice {
				out = append(out, unknownFields(fmt.Sprintf("%s[%d]", path, i), x, t.Elem())...)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil // of another type altogether: said when it is decoded
		}
		fields := fieldsOf(t)
		for _, name := range sorted(v) {
			at := strings.TrimPrefix(path+"."+name, ".")
			field, known := fields[name]
			if !known {
				out = append(out, at)
				continue
			}
			out = append(out, unknownFields(at, v[name], field)...)
		}
	}
	return out
}

// fieldsOf :: name in a document → its type
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		out[f.Tag.Get("json")] = f.Type
	}
	return out
}

// check refuses what the words cannot mean; what the service may not be is
// refused by the rules of every deploy.
func (d document) check() error {
	versions := apiVersions()
	if d.APIVersion != versions[0] && d.APIVersion != versions[1] {
		return fault.New(fault.Invalid, "say apiVersion: "+versions[0], "apiVersion %q is not known", d.APIVersion)
	}
	if d.Kind != "Service" {
		return fault.New(fault.Invalid, "say kind: Service", "kind %q is not known", d.Kind)
	}
	if err := service.CheckServiceName(d.Metadata.Name); err != nil {
		return err
	}
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		return fault.New(fault.Invalid, "describe one program in spec.template.spec.containers", "service %s has %d containers, and takes one", d.Metadata.Name, n)
	}
	if d.Fairlead.Instances < 0 {
		return fault.New(fault.Invalid, "leave it out to keep the number", "%d instances cannot be run", d.Fairlead.Instances)
	}
	return d.checkTraffic()
}

func (d document) checkTraffic() error {
	for _, t := range d.Spec.Traffic {
		if t.LatestRevision == (t.RevisionName != "") {
			return fault.New(fault.Invalid, "", "each entry of spec.traffic takes either latestRevision: true or a revisionName")
		}
	}
	return nil
}
