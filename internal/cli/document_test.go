package cli

import (
	"strings"
	"testing"
)

const least = "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: hello}\nspec: {template: {spec: {containers: [{command: [python3]}]}}}\n"

func TestADocumentIsRefusedByTheNameOfWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"an unknown field":           {least + "status: {}\n", "unknown field status"},
		"all unknown fields":         {strings.Replace(least, "command: [python3]", "image: x, ports: [], command: [python3]", 1), "unknown field spec.template.spec.containers[0].image, spec.template.spec.containers[0].ports"},
		"another case":               {strings.Replace(least, "kind:", "Kind:", 1), "unknown field Kind"},
		"a field twice":              {least + "kind: Service\n", "already set in map"},
		"not YAML":                   {"a: [", "not YAML"},
		"not a block":                {"- a\n", "a document takes the form of a block, not of: array"},
		"another version":            {strings.Replace(least, "fairlead.dev/v1", "v1", 1), `apiVersion "v1" is not known`},
		"another kind":               {strings.Replace(least, "Service", "Pod", 1), `kind "Pod" is not known`},
		"a number for text":          {strings.Replace(least, "[python3]", "[7]", 1), "takes the form of a string, not of: number"},
		"text for a number":          {least + "fairlead: {instances: two}\n", "fairlead.instances takes the form of a number, not of: string"},
		"a duration without a unit":  {least + "fairlead: {drain: 30}\n", "text with a unit"},
		"a duration that is none":    {least + "fairlead: {drain: soon}\n", "is not a duration"},
		"no name":                    {strings.Replace(least, "{name: hello}", "{}", 1), "needs a name"},
		"two programs":               {strings.Replace(least, "[{command: [python3]}]", "[{command: [a]}, {command: [b]}]", 1), "has 2 containers"},
		"no program":                 {strings.Replace(least, "[{command: [python3]}]", "[]", 1), "has 0 containers"},
		"less than no instances":     {least + "fairlead: {instances: -1}\n", "-1 instances"},
		"traffic to nobody":          {strings.Replace(least, "spec: {", "spec: {traffic: [{percent: 100}], ", 1), "either latestRevision: true or a revisionName"},
		"traffic to two":             {strings.Replace(least, "spec: {", "spec: {traffic: [{percent: 100, latestRevision: true, revisionName: x}], ", 1), "either latestRevision: true or a revisionName"},
		"one service twice":          {least + "---\n" + least, "hello is described twice"},
		"the number of the document": {least + "---\n" + strings.Replace(least, "hello", "Other", 1), "document 2: "},
		"nothing":                    {"---\n# nothing\n---\n", "no document"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := documents([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.why) || got != nil {
				t.Errorf("got %v, %v; want a refusal with %q", got, err, c.why)
			}
			if err != nil && exitCode(err) != ExitRefused {
				t.Errorf("exit code %d", exitCode(err))
			}
		})
	}
}

func TestDocumentsAreReadOneByOneWhateverStandsBetweenThem(t *testing.T) {
	text := "# first\n---\n" + least + "---   \n" + strings.Replace(least, "hello", "other", 1) + "--- # the end\n"
	got, err := documents([]byte(text))
	if err != nil || len(got) != 2 || got[1].Metadata.Name != "other" {
		t.Errorf("got %v, %v", got, err)
	}
	crlf, err := documents([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
	if err != nil || len(crlf) != 2 {
		t.Errorf("with other ends of lines: %v, %v", crlf, err)
	}
}

// FuzzDocuments: whatever a file holds is read or refused, and what is read has
// a name and one program.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte(least + "---\nfairlead: {drain: 30s}\n"))
	f.Add([]byte("&a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := documents(text)
		if err != nil && exitCode(err) != ExitRefused {
			t.Errorf("refused with exit code %d: %v", exitCode(err), err)
		}
		for _, d := range all {
			if d.Metadata.Name == "" || len(d.Spec.Template.Spec.Containers) != 1 {
				t.Errorf("read %+v", d)
			}
			if _, err := (described{document: d}).template(); err != nil && exitCode(err) != ExitRefused {
				t.Errorf("refused with exit code %d: %v", exitCode(err), err)
			}
		}
	})
}
