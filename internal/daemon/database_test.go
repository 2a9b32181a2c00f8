package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// closedPort is an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestAStoreThatCannotBeUsedIsToldWithWhatToDoAndWithoutItsPassword(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	const secret = "swordfish"
	here := func(user, database string) string {
		return "postgres://" + user + ":" + secret + "@/" + database + "?host=" + server.Folder + "&port=5432&sslmode=disable"
	}
	exec(t, server.URL, `CREATE DATABASE newer`)
	exec(t, server.URL, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	exec(t, server.URL, `CREATE ROLE reader LOGIN`)
	data := folder(t)
	first := run(t, controlOn(cli.Plane{Store: here("postgres", "newer")}), data)
	first.waitFor("control is up")
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	exec(t, here("postgres", "newer"), `UPDATE fairlead.head SET schema_version = schema_version + 1`)
	for name, c := range map[string]struct {
		url  string
		code int
		says string
	}{
		"another kind":     {"mysql://root:" + secret + "@h/db", cli.ExitRefused, "postgres://USER@HOST"},
		"no URL":           {"root:" + secret + "@h", cli.ExitRefused, "postgres://USER@HOST"},
		"a bad escape":     {"postgres://u:" + secret + "%zz@h/db", cli.ExitRefused, "percent-encode"},
		"a hash":           {"postgres://u:" + secret + "#1@h/db", cli.ExitRefused, "%23"},
		"a bad port":       {"postgres://u:" + secret + "@h:99999/db", cli.ExitRefused, "postgres://USER@HOST"},
		"a bad setting":    {"postgres://u:" + secret + "@h/db?sslmode=perhaps", cli.ExitRefused, "postgres://USER@HOST"},
		"nobody there":     {"postgres://u:" + secret + "@" + closedPort(t) + "/db", cli.ExitUnreachable, "start the server"},
		"no such host":     {"postgres://u:" + secret + "@nowhere.invalid/db", cli.ExitUnreachable, "start the server"},
		"no such user":     {here("nobody", "postgres"), cli.ExitRefused, "pg_hba.conf"},
		"no such database": {here("postgres", "absent"), cli.ExitRefused, "create it"},
		"no right":         {here("reader", "postgres"), cli.ExitRefused, "may create a schema"},
		"another encoding": {here("postgres", "latin"), cli.ExitRefused, "UTF8"},
		"a newer schema":   {here("postgres", "newer"), cli.ExitRefused, "newer program"},
	} {
		t.Run(name, func(t *testing.T) {
			data := folder(t)
			for _, role := range []string{"control", "up"} {
				args := []string{role, "--store", c.url, "--log-level", "debug", "--api", anyPort, "--ops", anyPort}
				if role == "up" {
					args = append(args, "--gateway", anyPort, "--poll", anyPort)
				}
				code, out, errs := fairlead(t, data, args...)
				if code != c.code || !strings.Contains(errs, c.says) {
					t.Errorf("%s: exit %d, expected %d and %q:\n%s", role, code, c.code, c.says, errs)
				}
				if strings.Contains(out+errs, secret) {
					t.Errorf("%s: the password is told:\n%s%s", role, out, errs)
				}
			}
			if _, err := os.Stat(filepath.Join(data, dirAuthority)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("an authority was made: %v", err)
			}
		})
	}
}

func controlOn(plane cli.Plane) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Control(ctx, cli.ControlOptions{Process: p, Plane: plane, API: anyPort, Ops: anyPort})
	}
}

const controlLine = `control is up: API ([0-9.:]+) and \S+, ops http://([0-9.:]+)/`

func TestOneOfTwoControlsLeadsAndTheOtherAsksItWhatOnlyItKnows(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	plane := cli.Plane{Store: server.URL, Authority: folder(t), Bucket: folder(t)}
	dataA, dataB := folder(t), folder(t)
	a := run(t, controlOn(plane), dataA)
	atA := a.waitFor(controlLine)
	a.waitFor("store postgres: survives a crash and power loss")
	b := run(t, controlOn(plane), dataB)
	atB := b.waitFor(controlLine)
	b.waitFor("this control stands by: \\S+ leads, at " + atA[1])
	if code, body := get(t, "http://"+atB[2]+"/readyz"); code != 200 {
		t.Errorf("the standby's readyz answers %d: %s", code, body)
	}

	for data, words := range map[string][]string{
		dataA: {"leads        yes", "store        postgres", "guarantee    survives a crash and power loss"},
		dataB: {"leads        no", "store        postgres", "guarantee    survives a crash and power loss", "this control stands by"},
	} {
		saysAll(t, mustRun(t, data, "info"), words...)
	}

	// By the standby a token is made, and a host joins, and finds the leader.
	controls := []string{atB[1], atA[1]}
	hostData := folder(t)
	run(t, hostOf(cli.Joining{Name: "h-1", Control: controls, Token: token(t, dataB, "host")}), hostData).waitFor("host is up: h-1")
	gw := run(t, gatewayOf(cli.Joining{Name: "gw-1", Control: controls, Token: token(t, dataB, "gateway")}), hostData)
	public := gw.waitFor(`requests http://([0-9.:]+)/`)[1]
	for _, data := range []string{dataA, dataB} {
		says(t, data, " yes ", "hosts")
		says(t, data, " yes ", "gateways")
		if code, out, errs := fairlead(t, data, "--api", map[string]string{dataA: atA[1], dataB: atB[1]}[data], "hosts"); code != 0 || !strings.Contains(out, " yes ") {
			t.Errorf("by TLS: exit %d\n%s%s", code, out, errs)
		}
	}
	// A deploy by the standby is the leader's work, and is told by the standby.
	code, out, errs := fairlead(t, dataB, "deploy", "hello", "--", "python3", "-m", "http.server", "$(PORT)")
	if code != 0 || !strings.Contains(out, "finalize") || !strings.Contains(out, "curl -H 'Host: hello.localhost' http://127.0.0.1:") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = fairlead(t, dataB, "status", "hello")
	if code != 0 || !strings.Contains(out, "live") || strings.Contains(out, "behind") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs = fairlead(t, dataB, "get"); code != 0 || !strings.Contains(out, "ready") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+public+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "hello.localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	says(t, dataB, "GET / ", "logs", "hello")

	// The leader ends, and hands the lead over at once. Until then the standby
	// says that it does not know.
	ended := time.Now()
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if code, out, errs = fairlead(t, dataB, "status", "hello"); code != 0 && !strings.Contains(errs, "known to the leader only") || code == 0 && !strings.Contains(out, "hello") {
		t.Errorf("exit %d: it should not tell what it does not know\n%s%s", code, out, errs)
	}
	if code, out, errs = fairlead(t, dataB, "revisions", "hello"); code != 0 {
		t.Errorf("exit %d: what the store knows needs no leader\n%s%s", code, out, errs)
	}
	b.waitFor("this control leads")
	if took := time.Since(ended); took > 3*time.Second {
		t.Errorf("the other led after %s: the lease was left to run out", took)
	}
	says(t, dataB, " yes ", "hosts")
	says(t, dataB, " yes ", "gateways")
	says(t, dataB, "live", "status", "hello")
	if code, out, errs = fairlead(t, dataB, "delete", "hello"); code != 0 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestControlsOfOneStoreHaveOneAuthority(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	dataA, dataB := folder(t), folder(t)
	a := run(t, controlOn(cli.Plane{Store: server.URL}), dataA)
	a.waitFor("this control leads")

	err := run(t, controlOn(cli.Plane{Store: server.URL}), dataB).end()
	mustSay(t, err, filepath.Join(dataB, dirAuthority), "holds no authority")
	if !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "copy the authority folder") {
		t.Errorf("%s, %q", fault.CodeOf(err), fault.HintOf(err))
	}
	if _, err := os.Stat(filepath.Join(dataB, dirAuthority)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an authority was made: %v", err)
	}

	other := folder(t)
	alone := run(t, controlAt(anyPort), other) // makes one of its own
	alone.waitFor("control is up")
	if err := alone.stop(); err != nil {
		t.Fatal(err)
	}
	mustSay(t, run(t, controlOn(cli.Plane{Store: server.URL}), other).end(), "holds another authority")

	// As the operator copies it.
	if err := os.CopyFS(filepath.Join(dataB, dirAuthority), os.DirFS(filepath.Join(dataA, dirAuthority))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dataB, dirAuthority), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "ca.crt"} {
		if err := os.Chmod(filepath.Join(dataB, dirAuthority, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := run(t, controlOn(cli.Plane{Store: server.URL}), dataB)
	b.waitFor("stands by")
	if err := errors.Join(b.stop(), a.stop()); err != nil {
		t.Fatal(err)
	}
	// It is lost for good, and somebody says so.
	run(t, controlOn(cli.Plane{Store: server.URL, NewAuthority: true}), other).waitFor("this control leads")
	mustSay(t, run(t, controlOn(cli.Plane{Store: server.URL}), dataA).end(), "holds another authority")
}

func TestUpOnADatabaseIsAloneThere(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	onIt := func(o *cli.UpOptions) { o.Store = server.URL }
	data := folder(t)
	first := run(t, up(onIt), data)
	first.waitFor(upLine)
	first.waitFor("store postgres: ")
	authority := filepath.Join(data, dirAuthority)
	err := run(t, up(func(o *cli.UpOptions) { onIt(o); o.Authority = authority }), folder(t)).end()
	mustSay(t, err, "another control leads", "at 127.0.0.1:")
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("its code is %s", fault.CodeOf(err))
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	run(t, up(onIt), data).waitFor(upLine)
}
