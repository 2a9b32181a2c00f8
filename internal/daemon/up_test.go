package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

func TestUpServesAllRolesAndSaysWhere(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	data := folder(t)
	r := run(t, up(func(o *cli.UpOptions) { o.Zones = []string{"a", "b", "c"} }), data)
	at := r.waitFor(upLine)
	r.waitFor("export FAIRLEAD_DATA=" + data)
	r.waitFor("could (then )?read the operator's credential")

	if code, body := get(t, "http://"+at[4]+"/readyz"); code != 200 {
		t.Errorf("readyz answers %d: %s", code, body)
	}
	if _, body := get(t, "http://"+at[4]+"/metrics"); !strings.Contains(body, `fairlead_trust_lost{name="host-a",role="host"} 0`) {
		t.Error("the metrics do not tell of trust")
	}
	info, err := os.Stat(filepath.Join(data, cli.SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	for name, args := range map[string][]string{"the socket": {"hosts"}, "TLS and the operator's credential": {"--api", at[2], "hosts"}} {
		code, out, errs := fairlead(t, data, args...)
		if code != 0 || strings.Count(out, " yes ") != 3 {
			t.Errorf("by %s: exit %d\n%s%s", name, code, out, errs)
		}
	}
	if code, body := get(t, "http://"+at[1]+"/"); code != 404 {
		t.Errorf("the gateway answers %d: %s", code, body)
	}
	if err := r.stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, cli.SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestUpStartsAgainOnTheSameFolder(t *testing.T) {
	data := folder(t)
	r := run(t, up(nil), data)
	r.waitFor(upLine)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := run(t, up(nil), data)
	again.waitFor(upLine)
	if strings.Contains(again.out.String(), "joined") {
		t.Error("it joined again though it had identities")
	}
	code, out, errs := fairlead(t, data, "gateways")
	if code != 0 || !strings.Contains(out, "gw ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestUpStartsThoughTheIdentitiesOfItsRolesAreDamaged(t *testing.T) {
	data := folder(t)
	r := run(t, up(nil), data)
	r.waitFor(upLine)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(data, "*", "*", "identity.pem"))
	if err != nil || len(files) != 3 {
		t.Fatalf("there are %v, %v", files, err)
	}
	for _, f := range append(files, filepath.Join(data, "control", "identity.key")) {
		if err := os.WriteFile(f, []byte("noise"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := run(t, up(nil), data)
	at := again.waitFor(upLine)
	if n := strings.Count(again.out.String(), "the identity cannot be read, another is made"); n != 4 {
		t.Errorf("it is said %d times:\n%s", n, again.out)
	}
	if code, body := get(t, "http://"+at[4]+"/readyz"); code != 200 {
		t.Errorf("readyz answers %d: %s", code, body)
	}
	if code, out, errs := fairlead(t, data, "hosts"); code != 0 || !strings.Contains(out, " yes ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestASecondUpOnTheSameFolderIsToldWhoHasIt(t *testing.T) {
	data := folder(t)
	run(t, up(nil), data).waitFor(upLine)
	err := run(t, up(nil), data).end()
	mustSay(t, err, data, "in use", "pid "+strconv.Itoa(os.Getpid()))
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("its code is %s", fault.CodeOf(err))
	}
}

func TestAPortInUseIsNamedWithItsFlagAndNothingIsMade(t *testing.T) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for flag, edit := range map[string]func(*cli.UpOptions){
		"--api":     func(o *cli.UpOptions) { o.API = taken },
		"--ops":     func(o *cli.UpOptions) { o.Ops = taken },
		"--gateway": func(o *cli.UpOptions) { o.Gateway = taken },
		"--poll":    func(o *cli.UpOptions) { o.Poll = taken },
	} {
		data := folder(t)
		err := run(t, up(edit), data).end()
		mustSay(t, err, taken, flag, "in use")
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: its code is %s", flag, fault.CodeOf(err))
		}
		if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data folder was made: %v", flag, err)
		}
	}
}

func TestADataFolderOfANewerVersionIsRefused(t *testing.T) {
	data := folder(t)
	if err := os.MkdirAll(filepath.Join(data, dirControl), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, dirControl, fileFormat), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t, up(nil), data).end()
	mustSay(t, err, data, "newer program")
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("its code is %s", fault.CodeOf(err))
	}
	if _, err := os.Stat(filepath.Join(data, dirAuthority)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made in it: %v", err)
	}
}

func TestRolesOfUpJoinAgainWhereTheAuthorityWasReplaced(t *testing.T) {
	data := folder(t)
	r := run(t, up(nil), data)
	r.waitFor(upLine)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(data, dirAuthority)); err != nil {
		t.Fatal(err)
	}
	again := run(t, up(nil), data)
	again.waitFor(upLine)
	if code, out, errs := fairlead(t, data, "hosts"); code != 0 || !strings.Contains(out, " yes ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestASocketInADeepFolderIsReached(t *testing.T) {
	data := filepath.Join(folder(t), strings.Repeat("deep/", 30))
	r := run(t, up(nil), data)
	r.waitFor("fairlead is up")
	if code, out, errs := fairlead(t, data, "get"); code != 0 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestZonesAreNamedOnceEach(t *testing.T) {
	for _, zones := range [][]string{{"a", "a"}, {"a", ""}, {"a/b"}} {
		data := folder(t)
		err := run(t, up(func(o *cli.UpOptions) { o.Zones = zones }), data).end()
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("zones %q gave %v", zones, err)
		}
		if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("zones %q: the data folder was made", zones)
		}
	}
}
