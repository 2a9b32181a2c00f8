package identity

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
)

func operatorConfig(t *testing.T, p *plane) (dir string, cfg *tls.Config) {
	t.Helper()
	dir = t.TempDir()
	if err := WriteOperatorCredential(p.authority, dir, "jane"); err != nil {
		t.Fatal(err)
	}
	return dir, must[*tls.Config](t)(OperatorTLS(dir))
}

func TestOnePortServesStreamsOfRolesAndTheOperatorAPI(t *testing.T) {
	p := startPlane(t, nil)
	const who = "spiffe://fairlead/operator/jane"

	host := dialGRPC(t, p.addr, ClientCredentials(newRole(t, p.authority, Host, "h1", time.Now), Control))
	for procedure, want := range map[string]string{
		"fairlead.v1.HostControlService/Session": "grpc-go spiffe://fairlead/host/h1",
		procRenew:                                "grpc-go unary spiffe://fairlead/host/h1",
	} {
		if got, err := callGRPC(t, host, procedure); err != nil || got != want {
			t.Errorf("host calling %s: %q, %v; want %q", procedure, got, err, want)
		}
	}

	_, cfg := operatorConfig(t, p)
	const api = "fairlead.v1.ServiceAPIService/GetStatus"
	h1, h2 := httpClient(t, cfg.Clone(), false), httpClient(t, cfg.Clone(), true)
	for name, call := range map[string]func() (string, error){
		"HTTP/1.1": func() (string, error) { return callConnect(t, h1, p.addr, api, connect.WithProtoJSON()) },
		"HTTP/2.0": func() (string, error) { return callConnect(t, h2, p.addr, api, connect.WithGRPC()) },
	} {
		if got, err := call(); err != nil || got != "connect "+name+" "+who {
			t.Errorf("operator by %s: %q, %v", name, got, err)
		}
	}
	res := must[*http.Response](t)(h1.Post("https://"+p.addr+"/"+api, "application/json", strings.NewReader(`"x"`)))
	body := must[[]byte](t)(io.ReadAll(res.Body))
	if err := res.Body.Close(); err != nil || string(body) != `"connect HTTP/1.1 `+who+`"` {
		t.Errorf("operator by plain JSON: %s, %v", body, err)
	}

	operator := dialGRPC(t, p.addr, ClientCredentials(&Keystore{now: time.Now, current: operatorMaterial(t, p)}, Control))
	if got, err := callGRPC(t, operator, api); err != nil || got != "connect HTTP/2.0 "+who {
		t.Errorf("operator by grpc-go: %q, %v", got, err)
	}
}

func operatorMaterial(t *testing.T, p *plane) *material {
	t.Helper()
	dir, _ := operatorConfig(t, p)
	return must[*material](t)(readOperator(dir))
}

func TestAClientThatNeverShakesDelaysNobodyAndIsDropped(t *testing.T) {
	a := newAuthority(t, time.Now)
	k := newRole(t, a, Control, "a", time.Now)
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	roles, others := Splitter{HandshakeTimeout: 2 * time.Second}.Split(ln, k.ServerTLS(ServerOptions{}))
	silent := must[net.Conn](t)(net.Dial("tcp", ln.Addr().String()))
	host := newRole(t, a, Host, "h", time.Now)
	cfg := host.ClientTLS(Control)
	cfg.NextProtos = []string{"h2"}
	conn := must[*tls.Conn](t)(tls.Dial("tcp", ln.Addr().String(), cfg))
	got := must[net.Conn](t)(roles.Accept())
	if got.RemoteAddr().String() != conn.LocalAddr().String() {
		t.Errorf("accepted %s, not %s", got.RemoteAddr(), conn.LocalAddr())
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection was answered")
	}
	for _, c := range []io.Closer{got, conn, silent, roles, others} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("the listener is still open after both halves are closed")
	}
}

func TestAHalfThatIsClosedLeavesTheOtherServing(t *testing.T) {
	a := newAuthority(t, time.Now)
	k := newRole(t, a, Control, "a", time.Now)
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	roles, others := Split(ln, k.ServerTLS(ServerOptions{}))
	if err := roles.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := roles.Accept(); err == nil {
		t.Error("a closed half accepts")
	}
	cfg := &tls.Config{InsecureSkipVerify: true}
	conn := must[*tls.Conn](t)(tls.Dial("tcp", ln.Addr().String(), cfg))
	got := must[net.Conn](t)(others.Accept())
	for _, c := range []io.Closer{got, conn, others} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectionsThatSayNothingKeepNobodyOut(t *testing.T) {
	a := newAuthority(t, time.Now)
	k := newRole(t, a, Control, "a", time.Now)
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	roles, others := Splitter{HandshakeTimeout: time.Hour, InFlight: 2}.Split(ln, k.ServerTLS(ServerOptions{}))
	closers := []io.Closer{roles, others}
	for i := range 6 {
		conn := must[net.Conn](t)(net.Dial("tcp", ln.Addr().String()))
		if i%2 == 1 { // the head of a hello, and no more
			must[int](t)(conn.Write([]byte{0x16, 3, 1, 2, 0}))
		}
		closers = append(closers, conn)
	}
	go func() {
		for {
			c, err := others.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // that it came is enough
		}
	}()
	for range 2 {
		closers = append(closers, must[*tls.Conn](t)(tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})))
	}
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Log("closing:", err)
		}
	}
}

func TestHandshakesInFlightAreBoundedAndThoseWhoWaitAreServed(t *testing.T) {
	a := newAuthority(t, time.Now)
	k := newRole(t, a, Control, "a", time.Now)
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	roles, others := Splitter{HandshakeTimeout: time.Second, InFlight: 2}.Split(ln, k.ServerTLS(ServerOptions{}))
	closers := []io.Closer{roles, others}
	for range 5 {
		closers = append(closers, must[net.Conn](t)(net.Dial("tcp", ln.Addr().String())))
	}
	dialled := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			err = conn.Close()
		}
		dialled <- err
	}()
	closers = append(closers, must[net.Conn](t)(others.Accept()))
	if err := <-dialled; err != nil {
		t.Error(err)
	}
	if n := cap(roles.(*half).split.slots); n != 2 {
		t.Errorf("%d slots", n)
	}
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Log("closing:", err)
		}
	}
}
