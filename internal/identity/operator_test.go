package identity

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const operatorAPI = "fairlead.v1.ServiceAPIService/GetStatus"

func TestCurlCanUseTheOperatorCredential(t *testing.T) {
	p := startPlane(t, nil)
	dir, _ := operatorConfig(t, p)
	_, port, _ := strings.Cut(p.addr, ":")
	for _, host := range []string{"localhost", "127.0.0.1"} {
		args := []string{
			"--silent", "--show-error", "--fail-with-body", "--max-time", "20", "-H", "Content-Type: application/json", "-d", `"x"`,
			"--cacert", filepath.Join(dir, OperatorCA), "--cert", filepath.Join(dir, OperatorCert), "--key", filepath.Join(dir, OperatorKey),
		}
		url := "https://" + host + ":" + port + "/" + operatorAPI
		for _, version := range []string{"--http1.1", "--http2"} {
			out, err := exec.Command("curl", append(slices.Clone(args), version, "--resolve", "localhost:"+port+":127.0.0.1", url)...).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), ` spiffe://fairlead/operator/jane"`) {
				t.Errorf("curl %s to %s (Debian's package curl): %s, %v", version, host, out, err)
			}
		}
	}
	url := "https://" + p.addr + "/" + operatorAPI
	out, err := exec.Command("curl", "--silent", "--cacert", filepath.Join(dir, OperatorCA), "-H", "Content-Type: application/json", "-d", `"x"`, url).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"code":"unauthenticated"`) {
		t.Errorf("curl without a certificate: %s, %v", out, err)
	}
}

func TestAStandardClientKnowsControlByNameAndAddress(t *testing.T) {
	p := startPlane(t, func(p *plane) {
		if err := p.authority.Issue(p.control, ID{DefaultTrustDomain, Control, "a"}, WithHosts("control.example", "10.1.2.3", "::1", "")); err != nil {
			t.Fatal(err)
		}
	})
	dir, _ := operatorConfig(t, p)
	cert := must[tls.Certificate](t)(tls.LoadX509KeyPair(filepath.Join(dir, OperatorCert), filepath.Join(dir, OperatorKey)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must[[]byte](t)(os.ReadFile(filepath.Join(dir, OperatorCA))))
	for name, ok := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "control.example": true, "10.1.2.3": true, "other.example": false} {
		c := httpClient(t, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, ServerName: name}, true)
		res, err := c.Get("https://" + p.addr + "/" + operatorAPI)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if err := res.Body.Close(); err != nil || res.StatusCode == http.StatusForbidden {
			t.Errorf("%s: %s, %v", name, res.Status, err)
		}
	}
}

func TestAnOperatorCredentialIsKeptWhileItIsGood(t *testing.T) {
	c := newClock()
	a := newAuthority(t, c.now)
	dir := filepath.Join(t.TempDir(), "operator")
	write := func(a *Authority, name string) string {
		t.Helper()
		if err := WriteOperatorCredential(a, dir, name); err != nil {
			t.Fatal(err)
		}
		checkPrivate(t, dir)
		return must[*material](t)(readOperator(dir)).leaf.SerialNumber.String()
	}
	first := write(a, "jane")
	if write(a, "jane") != first {
		t.Error("replaced while it was good")
	}
	c.add(11 * 24 * time.Hour)
	second := write(a, "jane")
	if second == first {
		t.Error("kept after one third of its life")
	}
	third := write(a, "joe")
	if third == second {
		t.Error("kept under another name")
	}
	fourth := write(newAuthority(t, c.now), "joe")
	if fourth == third {
		t.Error("kept under another authority")
	}
	if err := os.Remove(filepath.Join(dir, OperatorKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := OperatorTLS(dir); err == nil || !strings.Contains(err.Error(), "start control to have it made") {
		t.Errorf("without its key: %v", err)
	}
	if write(a, "joe") == fourth {
		t.Error("not replaced when its key was gone")
	}
}

func TestAnExpiredOperatorCredentialIsNamedBeforeDialling(t *testing.T) {
	c := newClock()
	c.add(-32 * 24 * time.Hour)
	dir := t.TempDir()
	if err := WriteOperatorCredential(newAuthority(t, c.now), dir, "jane"); err != nil {
		t.Fatal(err)
	}
	if _, err := OperatorTLS(dir); err == nil || !strings.Contains(err.Error(), "has expired 2 days ago") {
		t.Error(err)
	}
}
