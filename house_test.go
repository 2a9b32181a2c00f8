// Package house holds the rules of the tree that a machine checks: which room
// may import which, that each has a package doc, and that ARCHITECTURE.md names
// every directory. Read [arrow] first.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fairlead-platform/fairlead/"

// arrow says which of our packages a package may import, by longest matching
// prefix of its path. A trailing "/..." allows the whole subtree. A core room
// may, beyond these, import the standard library only.
var arrow = map[string]struct {
	core    bool
	imports []string
}{
	"view":                     {core: true},
	"internal/saga":            {core: true},
	"internal/lease":           {core: true, imports: []string{"view"}},
	"internal/routing":         {core: true, imports: []string{"view"}},
	"internal/service":         {core: true, imports: []string{"view", "internal/saga", "internal/routing"}},
	"internal/eligibility":     {core: true},
	"internal/registry":        {core: true},
	"internal/budget":          {core: true, imports: []string{"view"}},
	"internal/drill":           {core: true, imports: []string{"view", "internal/routing", "internal/admission"}},
	"internal/admission":       {core: true},
	"internal/evidence":        {imports: []string{"internal/eligibility", "internal/bucket"}},
	"internal/evaluate":        {imports: []string{"view", "internal/eligibility", "internal/evidence", "internal/registry"}},
	"internal/discovery":       {imports: []string{"internal/routing", "view", "internal/budget", "internal/eligibility", "internal/evidence", "internal/evaluate", "internal/registry", "internal/service", "internal/store", "internal/bucket", "internal/telemetry", "internal/fault", "internal/may"}},
	"internal/explain":         {core: true, imports: []string{"internal/routing", "view", "internal/service", "internal/saga"}},
	"api":                      {},
	"internal/fault":           {},
	"internal/flock":           {},
	"internal/shelter":         {},
	"internal/telemetry":       {imports: []string{"internal/outage"}},
	"internal/wire":            {imports: []string{"view", "internal/service", "api/..."}},
	"internal/store":           {imports: []string{"internal/store/..."}},
	"internal/bucket":          {imports: []string{"internal/bucket/..."}},
	"internal/identity":        {imports: []string{"api/...", "internal/fault"}},
	"internal/credential":      {core: true},
	"internal/may":             {core: true},
	"internal/outage":          {},
	"resolver":                 {imports: []string{"view", "api/...", "internal/wire", "internal/outage", "internal/credential"}},
	"resolver/resolvertest":    {imports: []string{"resolver", "view", "api/...", "internal/identity", "internal/credential", "internal/surface/views"}},
	"internal/surface/stream":  {imports: []string{"view", "internal/service", "internal/wire", "api/...", "internal/identity", "internal/telemetry", "internal/fault"}},
	"internal/surface/attach":  {imports: []string{"view", "internal/service", "internal/wire", "api/...", "internal/identity", "internal/telemetry", "internal/fault"}},
	"internal/surface/views":   {imports: []string{"internal/routing", "view", "internal/budget", "internal/may", "internal/service", "internal/wire", "api/...", "internal/admission"}},
	"internal/surface/witness": {imports: []string{"api/...", "internal/eligibility", "internal/evidence"}},
	"internal/surface/httpapi": {imports: []string{"internal/routing", "internal/explain", "internal/discovery", "internal/registry", "internal/budget", "internal/drill", "internal/eligibility", "view", "internal/service", "internal/saga", "internal/store", "internal/bucket", "internal/wire", "api/...", "internal/identity", "internal/telemetry", "internal/fault", "internal/may"}},
	"internal/control":         {imports: []string{"internal/routing", "view", "internal/service", "internal/saga", "internal/store", "internal/fault", "internal/telemetry"}},
	"internal/host":            {imports: []string{"view", "internal/service", "internal/wire", "api/...", "internal/fault", "internal/flock", "internal/telemetry", "internal/outage", "internal/credential"}},
	"internal/gateway":         {imports: []string{"view", "internal/service", "internal/lease", "internal/wire", "api/...", "internal/fault", "internal/telemetry"}},
	"internal/agent":           {imports: []string{"view", "resolver", "api/...", "internal/wire", "internal/may", "internal/service", "internal/fault"}},
	"internal/relay":           {imports: []string{"view", "resolver", "internal/admission", "internal/evidence", "internal/may", "internal/surface/views", "internal/surface/witness", "api/..."}},
	"internal/prober":          {imports: []string{"view", "internal/eligibility", "internal/wire", "internal/outage", "api/..."}},
	"internal/hosttest":        {imports: []string{"view", "internal/service", "internal/control", "internal/host", "internal/fault"}},
	"internal/gatewaytest":     {imports: []string{"view", "internal/service", "internal/control", "internal/lease"}},
	"internal/historytest":     {imports: []string{"internal/service"}},
	"scripts/mutants":          {},
	"internal/cli":             {imports: []string{"api/...", "internal/fault", "internal/daemon", "internal/service", "internal/identity", "internal/credential", "internal/telemetry"}},
	"internal/daemon":          {imports: []string{"..."}},
	"cmd/fairlead":             {imports: []string{"internal/cli", "internal/daemon"}},
	"examples/hello":           {},
	"e2e/testcaller":           {imports: []string{"resolver", "resolver/httpresolver"}},
	"e2e":                      {imports: []string{"api/...", "internal/historytest", "internal/shelter"}},
}

type listed struct {
	ImportPath                string
	Dir                       string
	Doc                       string
	Imports                   []string
	GoFiles                   []string
	TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("cannot list packages: %v", err)
	}
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath+"/" != module {
			all = append(all, p)
		}
	}
}

func ruleFor(name string) (string, bool) {
	for at := name; at != "."; at = path.Dir(at) {
		if _, ok := arrow[at]; ok {
			return at, true
		}
	}
	return "", false
}

func allowed(rule string, imported string) bool {
	return slices.ContainsFunc(arrow[rule].imports, func(pattern string) bool {
		if prefix, subtree := strings.CutSuffix(pattern, "..."); subtree {
			return strings.HasPrefix(imported+"/", prefix)
		}
		return pattern == imported
	})
}

func TestARoomImportsOnlyAlongTheArrow(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		rule, ok := ruleFor(name)
		if !ok {
			t.Errorf("%s is in no row of the arrow's table: add one that says what it may import", name)
			continue
		}
		for _, i := range p.Imports {
			ours, isOurs := strings.CutPrefix(i, module)
			switch {
			case isOurs && !strings.HasPrefix(ours, rule+"/") && ours != rule && !allowed(rule, ours):
				t.Errorf("%s imports %s, which the row %q does not allow", name, ours, rule)
			case !isOurs && arrow[rule].core && strings.Contains(strings.SplitN(i, "/", 2)[0], "."):
				t.Errorf("%s is a core room and imports %s, which is not of the standard library", name, i)
			}
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" && !strings.HasSuffix(p.ImportPath, "connect") {
			t.Errorf("%s has no package doc: say what it holds, what it never does, and the type to read first", p.ImportPath)
		}
	}
}

func TestArchitectureNamesEveryDirectory(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.Contains(name, "testdata") || strings.HasPrefix(name, "api/") {
			continue
		}
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("ARCHITECTURE.md does not name `%s`", name)
		}
	}
}

func TestNoTestIsSkipped(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(p.Dir + "/" + f)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("t.Skip")) {
				t.Errorf("%s/%s skips a test: make it say what is missing and fail", p.ImportPath, f)
			}
		}
	}
}

// A row of the reference that names a test which is no more shows nothing.
func TestEveryTestThatTheInvariantsNameIsThere(t *testing.T) {
	var all bytes.Buffer
	for _, p := range packages(t) {
		for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			source, err := os.ReadFile(p.Dir + "/" + f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(source)
		}
	}
	for _, page := range []string{"docs/reference/invariants.md", "docs/reference/field.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`Test[A-Z]\w+`).FindAll(text, -1)
		if len(named) == 0 {
			t.Errorf("%s names no test", page)
		}
		for _, name := range named {
			if !bytes.Contains(all.Bytes(), append(append([]byte("func "), name...), '(')) {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
}

func TestEveryTestThatAReferenceNamesExists(t *testing.T) {
	written := map[string]bool{} // :: test → is there
	test := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range test.FindAllSubmatch(text, -1) {
			written[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	for _, name := range []string{"scenarios", "field", "invariants"} {
		text, err := os.ReadFile("docs/reference/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range named.FindAllString(string(text), -1) {
			if !written[n] {
				t.Errorf("docs/reference/%s.md names %s, which there is not", name, n)
			}
		}
	}
}
