package service

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAServiceNameIsADNSLabelThatLeavesRoomForRevisionsAndTags(t *testing.T) {
	for name, ok := range map[string]bool{
		"hello": true, "web-shop": true, "a": true, "0": true, strings.Repeat("a", 49): true,
		"": false, strings.Repeat("a", 50): false, "Hello": false, "-a": false, "a-": false,
		"a.b": false, "a_b": false, "blue---hello": false, "héllo": false, "a b": false,
	} {
		if err := CheckServiceName(name); (err == nil) != ok {
			t.Errorf("CheckServiceName(%q) = %v, accepted shall be %v", name, err, ok)
		}
	}
}

func TestAHostNameIsPlainDNSAndNotAnotherServices(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"shop.example.com", "shop.example.com"},
		{"Shop.Example.COM.", "shop.example.com"},
		{"hello.localhost", "hello.localhost"},
		{"api.hello.localhost", "api.hello.localhost"},
		{"other.localhost", ""},
		{"api.other.localhost", ""},
		{"blue---hello.localhost", ""},
		{"blue---shop.example.com", ""},
		{"127.0.0.1", ""},
		{"::1", ""},
		{"shop.example.com:8080", ""},
		{"http://shop.example.com", ""},
		{"*.example.com", ""},
		{"a..b", ""},
		{"", ""},
		{strings.Repeat("a", 64) + ".com", ""},
		{strings.Repeat("a.", 127) + "com", ""},
	} {
		got, err := NormalizeHostName("hello", c.in)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("NormalizeHostName(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func FuzzAHostNameThatIsAcceptedStaysAccepted(f *testing.F) {
	for _, s := range []string{"shop.example.com", "A.localhost", "a---b.c", "..", "é.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		once, err := NormalizeHostName("hello", in)
		if err != nil {
			return
		}
		if twice, err := NormalizeHostName("hello", once); err != nil || twice != once {
			t.Fatalf("%q became %q, and then %q, %v", in, once, twice, err)
		}
		if strings.HasSuffix(once, "."+localDomain) && !strings.HasSuffix("."+once, "."+LocalHost("hello")) {
			t.Fatalf("%q is another service's", once)
		}
	})
}

func good() Template { return Template{Command: []string{"python3", "-m", "http.server"}} }

func TestWhatCannotRunIsRefusedWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Template)
		want string // part of the problem; empty means accepted
	}{
		"good":              {func(*Template) {}, ""},
		"no command":        {func(t *Template) { t.Command = nil }, "no command"},
		"empty command":     {func(t *Template) { t.Command = []string{""} }, "no command"},
		"relative":          {func(t *Template) { t.Command = []string{"./bin/hello"} }, "relative path"},
		"absolute":          {func(t *Template) { t.Command = []string{"/usr/bin/python3"} }, ""},
		"artifact":          {func(t *Template) { t.Command[0], t.Artifact = "./x", "sha256:"+strings.Repeat("a", 64) }, ""},
		"bad artifact":      {func(t *Template) { t.Artifact = "sha256:xyz" }, "not the digest"},
		"zero byte":         {func(t *Template) { t.Command = []string{"a", "b\x00"} }, "zero byte"},
		"env name":          {func(t *Template) { t.Env = map[string]string{"1A": ""} }, "not the name"},
		"env PORT":          {func(t *Template) { t.Env = map[string]string{"PORT": "1"} }, "set by the host"},
		"env FAIRLEAD_X":    {func(t *Template) { t.Env = map[string]string{"FAIRLEAD_SERVICE": "1"} }, "set by the host"},
		"env value":         {func(t *Template) { t.Env = map[string]string{"A": "\x00"} }, "zero byte"},
		"env huge":          {func(t *Template) { t.Env = map[string]string{"A": strings.Repeat("x", 200<<10)} }, "bytes"},
		"relative dir":      {func(t *Template) { t.Dir = "site" }, "absolute"},
		"ready path":        {func(t *Template) { t.ReadyPath = "healthz" }, "ready path"},
		"ready path escape": {func(t *Template) { t.ReadyPath = "/%zz" }, "ready path"},
		"ready path spaces": {func(t *Template) { t.ReadyPath = "/a b" }, "ready path"},
		"user":              {func(t *Template) { t.User = "a:b" }, "not a user"},
		"concurrency":       {func(t *Template) { t.Concurrency = -1 }, "concurrency"},
		"drain":             {func(t *Template) { t.Drain = -time.Second }, "drain time"},
		"timeout":           {func(t *Template) { t.RequestTimeout = 48 * time.Hour }, "request timeout"},
		"ready timeout":     {func(t *Template) { t.ReadyTimeout = time.Millisecond }, "too short"},
		"group":             {func(t *Template) { t.Group = "x.y" }, "not a DNS label"},
		"handover":          {func(t *Template) { t.Handover = "sudden" }, "not known"},
	} {
		tmpl := good()
		c.edit(&tmpl)
		err := tmpl.Check()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: refused: %v", name, err)
			}
			continue
		}
		var in *InputError
		if !errors.As(err, &in) || !strings.Contains(in.Problem, c.want) {
			t.Errorf("%s: got %v, want an InputError that says %q", name, err, c.want)
		}
	}
}

func TestFlagsThatAreNotGivenKeepTheirValues(t *testing.T) {
	base := &Desired{Service: "hello", Template: Template{
		Command: []string{"./hello"}, Artifact: "sha256:aa", Env: map[string]string{"A": "1", "B": "2"},
		Dir: "/srv", ReadyPath: "/ok", Concurrency: 7, Drain: time.Second,
	}, HostNames: []string{"a.example"}}
	port := 9
	got, hosts, err := DeployFlags{Env: []string{"A=9", "B-", "C=x=y", "D="}, Concurrency: &port}.Merge(base)
	if err != nil {
		t.Fatal(err)
	}
	want := base.Template
	want.Env, want.Concurrency = map[string]string{"A": "9", "C": "x=y", "D": ""}, 9
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !reflect.DeepEqual(hosts, base.HostNames) {
		t.Errorf("host names became %v", hosts)
	}
	if base.Template.Env["A"] != "1" {
		t.Error("merging changed what stood")
	}
}

func TestACommandReplacesItsArtifactToo(t *testing.T) {
	base := &Desired{Template: Template{Command: []string{"./hello"}, Artifact: "sha256:aa"}}
	got, _, err := DeployFlags{Command: []string{"python3"}}.Merge(base)
	if err != nil || got.Artifact != "" || got.Command[0] != "python3" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHostNamesThatAreGivenReplaceTheList(t *testing.T) {
	base := &Desired{HostNames: []string{"a.example"}}
	_, hosts, _ := DeployFlags{HostNames: []string{"b.example"}}.Merge(base)
	if !reflect.DeepEqual(hosts, []string{"b.example"}) {
		t.Errorf("got %v", hosts)
	}
	if _, hosts, _ = (DeployFlags{HostNames: []string{""}}).Merge(base); len(hosts) != 0 {
		t.Errorf("an empty name left %v", hosts)
	}
}

func TestNothingOfADeletedServiceIsKept(t *testing.T) {
	base := &Desired{Service: "hello", Generation: 4, Deleted: true, Instances: 5, Round: 2, Template: good(), Traffic: []Target{{Revision: "hello-00001", Percent: 100}}}
	tmpl, _, err := DeployFlags{}.Merge(base)
	if err != nil || len(tmpl.Command) != 0 {
		t.Fatalf("merged %+v, %v", tmpl, err)
	}
	next, err := Deploy(base, "hello", DeployEdit{Template: good()}, Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	want := Desired{Service: "hello", Generation: 5, Instances: 1, Round: 2, Template: good()}
	if d := cmp.Diff(want, next); d != "" {
		t.Error(d)
	}
}

func TestEnvSaysWhatToWrite(t *testing.T) {
	for _, e := range []string{"A", "1=2", "=x", "PORT=1"} {
		if _, _, err := (DeployFlags{Env: []string{e}}).Merge(nil); err == nil {
			t.Errorf("--env %q was accepted", e)
		}
	}
}

func split(parts ...CatalogPart) Catalog { return Catalog{Service: "hello", Traffic: parts} }

func TestDeployEditsTrafficOnlyWhereAFlagNamesIt(t *testing.T) {
	one := CatalogPart{Revision: "hello-00001", Percent: 100}
	for name, c := range map[string]struct {
		old     []Target
		today   Catalog
		edit    DeployEdit
		want    []Target
		refused string
	}{
		"nothing named": {edit: DeployEdit{}},
		"a pin is kept": {
			old:  []Target{{Revision: "hello-00001", Percent: 100}, {}},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {}},
		},
		"no traffic": {
			today: split(one), edit: DeployEdit{NoTraffic: true},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {}},
		},
		"no traffic with a tag": {
			today: split(one), edit: DeployEdit{NoTraffic: true, Tag: "blue"},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {Tag: "blue"}},
		},
		"no traffic where nothing serves": {edit: DeployEdit{NoTraffic: true}, refused: "nothing of service hello serves"},
		"an earlier tag stays on its revision": {
			today: split(one, CatalogPart{Revision: "hello-00002", Tag: "blue"}), edit: DeployEdit{NoTraffic: true, Tag: "green"},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {Revision: "hello-00002", Tag: "blue"}, {Tag: "green"}},
		},
		"a tag moves": {
			today: split(one, CatalogPart{Revision: "hello-00002", Tag: "blue"}), edit: DeployEdit{NoTraffic: true, Tag: "blue"},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {Tag: "blue"}},
		},
		"a tag alone": {edit: DeployEdit{Tag: "blue"}, want: []Target{{Percent: 100, Tag: "blue"}}},
		"a tag on what is pinned": {
			old: []Target{{Revision: "hello-00001", Percent: 100}}, edit: DeployEdit{Tag: "blue"},
			want: []Target{{Revision: "hello-00001", Percent: 100}, {Tag: "blue"}},
		},
		"bad tag":  {edit: DeployEdit{Tag: "Blue"}, refused: "not a DNS label"},
		"long tag": {edit: DeployEdit{Tag: strings.Repeat("a", 56)}, refused: "too long"},
	} {
		c.edit.Template = good()
		old := &Desired{Service: "hello", Generation: 3, Instances: 1, Template: good(), Traffic: c.old}
		next, err := Deploy(old, "hello", c.edit, c.today)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, next.Traffic); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestEveryEditIsTheNextGenerationAndLeavesTheOldAlone(t *testing.T) {
	old := Desired{Service: "hello", Generation: 7, Instances: 2, Template: good(), HostNames: []string{"a.example"}}
	before := old.next(Author{})
	before.Generation = 7
	at := Author{By: "ann", At: time.Unix(1, 0)}
	scaled, err := old.Scale(5, at)
	if err != nil || scaled.Instances != 5 || scaled.Generation != 8 || scaled.By != "ann" {
		t.Errorf("scaled to %+v, %v", scaled, err)
	}
	for _, n := range []int{-1, 0, MaxInstances + 1} {
		if _, err := old.Scale(n, at); err == nil {
			t.Errorf("scaled to %d", n)
		}
	}
	if r := old.Restart(at); r.Round != 1 || r.Generation != 8 {
		t.Errorf("restarted as %+v", r)
	}
	if d := old.Delete(at); !d.Deleted || d.Generation != 8 {
		t.Errorf("deleted as %+v", d)
	}
	if d := cmp.Diff(before, old); d != "" {
		t.Error(d)
	}
}

func TestADigestNamesTheIntentAndNothingElse(t *testing.T) {
	tmpl := good()
	tmpl.Env = map[string]string{}
	if good().Digest("k") != tmpl.Digest("k") {
		t.Error("an empty environment and none differ")
	}
	if good().Digest("k") == good().Digest("l") {
		t.Error("the key is not in the digest")
	}
	if err := CheckDigest(good().Digest("k")); err != nil {
		t.Error(err)
	}
	tmpl.Env = map[string]string{"A": "1"}
	if good().Digest("k") == tmpl.Digest("k") {
		t.Error("the environment is not in the digest")
	}
}

func TestTheDigestDoesNotDependOnTheOrderOfTheEnvironment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env := rapid.MapOf(rapid.StringMatching(`[A-Z]{1,3}`), rapid.String()).Draw(t, "env")
		a, b := good(), good()
		a.Env = env
		b.Env = map[string]string{}
		for k, v := range env {
			b.Env[k] = v
		}
		if a.Digest("k") != b.Digest("k") {
			t.Fatal("digests differ")
		}
	})
}

func TestAnIntentIsMetWhenAllTrafficGoesToItsTemplate(t *testing.T) {
	base := Desired{Service: "hello", Generation: 3, Instances: 1, Template: good()}
	revisions := map[string]Revision{"hello-00001": {Template: Template{Command: []string{"other"}}}, "hello-00002": {Template: good()}}
	served := Catalog{Service: "hello", ObservedGeneration: 3, Latest: "hello-00002", Traffic: []CatalogPart{{Revision: "hello-00002", Percent: 100}}}
	for name, c := range map[string]struct {
		edit  func(*DeployEdit)
		today func(*Catalog)
		old   func(*Desired)
		want  bool
	}{
		"the same":              {want: true},
		"forced":                {edit: func(e *DeployEdit) { e.Force = "x" }},
		"more instances":        {edit: func(e *DeployEdit) { e.Instances = 2 }},
		"another host name":     {edit: func(e *DeployEdit) { e.HostNames = []string{"a.example"} }},
		"its own host name":     {edit: func(e *DeployEdit) { e.HostNames = []string{"Hello.localhost"} }, want: true},
		"another template":      {edit: func(e *DeployEdit) { e.Template.ReadyPath = "/" }},
		"not applied yet":       {today: func(c *Catalog) { c.ObservedGeneration = 2 }},
		"needs an operator":     {today: func(c *Catalog) { c.NeedsOperator = "why" }},
		"traffic on another":    {today: func(c *Catalog) { c.Traffic[0].Revision = "hello-00001" }},
		"nothing serves":        {today: func(c *Catalog) { c.Traffic = nil }},
		"deleted":               {old: func(d *Desired) { d.Deleted = true }},
		"pinned, latest met":    {old: func(d *Desired) { d.Traffic = []Target{{Revision: "hello-00001", Percent: 100}, {}} }, want: true},
		"a different pin asked": {edit: func(e *DeployEdit) { e.NoTraffic = true }},
	} {
		old, today, edit := base, served, DeployEdit{Template: good()}
		today.Traffic = append([]CatalogPart(nil), served.Traffic...)
		if c.edit != nil {
			c.edit(&edit)
		}
		if c.today != nil {
			c.today(&today)
		}
		if c.old != nil {
			c.old(&old)
		}
		next, err := Deploy(&old, "hello", edit, today)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := Met(&old, next, today, revisions); got != c.want {
			t.Errorf("%s: met is %v", name, got)
		}
	}
}

func TestWhatServesIsSaidInASentence(t *testing.T) {
	for want, c := range map[string]Catalog{
		"nothing serves hello":                           split(),
		"hello-00001 serves all traffic":                 split(CatalogPart{Revision: "hello-00001", Percent: 100}, CatalogPart{Revision: "hello-00002", Tag: "x"}),
		"hello-00001 serves 90%, hello-00002 serves 10%": split(CatalogPart{Revision: "hello-00001", Percent: 90}, CatalogPart{Revision: "hello-00002", Percent: 10}),
	} {
		if got := c.Serving(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNamesThatAreMadeOfANameFitIntoALabel(t *testing.T) {
	name := strings.Repeat("s", MaxServiceName)
	if len(name+"-00001") > maxLabel {
		t.Error("a revision does not fit")
	}
	tag := strings.Repeat("t", maxLabel-MaxServiceName-len(tagSeparator))
	if err := CheckTag(name, tag); err != nil {
		t.Error(err)
	}
	if got := URL(TagHost("blue", LocalHost("hello")), 8080); got != "http://blue---hello.localhost:8080/" {
		t.Error(got)
	}
	if got := URL("hello.localhost", 80); got != "http://hello.localhost/" {
		t.Error(got)
	}
}
