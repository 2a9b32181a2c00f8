package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

type identityCmd struct {
	Caller identityCallerCmd `cmd:"" help:"Make an identity for someone who calls services from outside our hosts."`
	Renew  identityRenewCmd  `cmd:"" help:"Renew the identity in a folder by itself, expired or not."`
	Show   identityShowCmd   `cmd:"" help:"Show whose identity a folder holds, and until when."`
	List   identityListCmd   `cmd:"" help:"List whose identities were given to callers, and whose were revoked."`
	Revoke identityRevokeCmd `cmd:"" help:"Refuse an identity from now on, everywhere and for good."`
}

type identityCallerCmd struct {
	Name  string `arg:"" help:"Name of the caller, unique in the installation."`
	Out   string `name:"out" required:"" placeholder:"DIR" help:"Folder to write key.pem, cert.pem and bundle.pem into; made where it is missing."`
	Again bool   `name:"again" help:"Give a name that was given before to another key as well; the former stays valid."`
	Force bool   `name:"force" help:"Replace the identity that the folder holds."`
}

// Run makes the key here: it never leaves this machine.
func (cmd *identityCallerCmd) Run(c *call) error {
	dir, err := filepath.Abs(cmd.Out)
	if err != nil {
		return fmt.Errorf("cannot find the folder: %w", err)
	}
	there, err := credential.Exists(dir)
	if err != nil {
		return err
	}
	if there && !cmd.Force {
		return fault.New(fault.Exists, "name another folder, or replace it by --force: whoever uses it goes on by the new one", "%s holds an identity already", dir)
	}
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	csr, err := key.Request()
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.identity.IssueCaller(c.ctx, connect.NewRequest(&fairleadv1.IssueCallerRequest{Name: cmd.Name, CsrPem: csr, Again: cmd.Again || there && replaces(dir, cmd.Name)}))
	if err != nil {
		return remote(err)
	}
	if err := (credential.Files{Key: key.PEM, Cert: resp.Msg.GetCertificatePem(), Bundle: resp.Msg.GetBundlePem()}).Write(dir); err != nil {
		return err
	}
	return c.tellIdentity(dir)
}

// replaces says whether the folder holds the identity of that very caller.
func replaces(dir, name string) bool {
	f, err := credential.Open(dir)
	return err == nil && strings.HasSuffix(f.ID(), "/caller/"+name)
}

type identityShowCmd struct {
	Dir string `arg:"" help:"Folder of the identity."`
}

// Run asks control, too: what is in the folder says not that it was revoked.
func (cmd *identityShowCmd) Run(c *call) error {
	f, err := credential.Open(cmd.Dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	revoked, said := c.isRevoked(f)
	return c.tell(f, cmd.Dir, revoked, said)
}

// showWait bounds how long control is asked: the folder is shown without it.
const showWait = 3 * time.Second

// isRevoked shows the identity itself to control: who is revoked is refused as
// such, whatever he asks for. Nil is not known, and said why.
func (c *call) isRevoked(f *credential.Folder) (revoked *bool, said string) {
	addresses, err := c.planeAddresses()
	if err != nil {
		return nil, err.Error()
	}
	ctx, cancel := context.WithTimeout(c.ctx, showWait)
	defer cancel()
	for _, address := range addresses {
		transport := &http.Transport{TLSClientConfig: f.TLS("control"), ForceAttemptHTTP2: true}
		client := fairleadv1connect.NewIdentityServiceClient(&http.Client{Transport: transport}, "https://"+address, connect.WithGRPC())
		_, err = client.ListIdentities(ctx, connect.NewRequest(&fairleadv1.ListIdentitiesRequest{}))
		transport.CloseIdleConnections()
		err = remote(err)
		switch is := err != nil && strings.Contains(err.Error(), identity.ErrRefused.Error()); {
		case is, err == nil, errors.Is(err, fault.Forbidden):
			return &is, address
		}
	}
	return nil, err.Error()
}

// planeAddresses are those that a caller's program would ask, without --api.
func (c *call) planeAddresses() ([]string, error) {
	if plane := c.env.Getenv("FAIRLEAD_PLANE"); c.opts.API == "" && plane != "" {
		return strings.Split(plane, ","), nil
	}
	address, err := c.tlsAddress()
	return []string{address}, err
}

func (c *call) tellIdentity(dir string) error {
	f, err := credential.Open(dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	no := false // control has just signed it
	return c.tell(f, dir, &no, "")
}

// tell of an identity; revoked is nil where that is not known, for what is said.
func (c *call) tell(f *credential.Folder, dir string, revoked *bool, said string) error {
	if !c.out.table() {
		all := map[string]any{"identity": f.ID(), "folder": dir, "expires": f.NotAfter(), "renewal": f.RenewAt(), "managed": f.Managed(), "revoked": revoked}
		if revoked == nil {
			all["revokedUnknown"] = said
		}
		return c.out.value(all)
	}
	c.out.line("identity %s in %s", f.ID(), dir)
	switch {
	case revoked == nil:
		c.out.line("revoked  not known, since control was not asked: %s; name it by --api HOST:PORT", said)
	case *revoked:
		c.out.line("%s  by an operator, for good, says control at %s: it is answered nothing; take another name (fairlead identity list)", c.out.paint(red, "revoked"), said)
	case said != "":
		c.out.line("revoked  no, says control at %s", said)
	}
	left := time.Until(f.NotAfter())
	if left > 0 {
		c.out.line("expires  %s, in %s", f.NotAfter().Local().Format("2006-01-02 15:04:05"), span(left))
	} else {
		c.out.line("expired  %s, %s ago: it may renew itself still, and nothing else", f.NotAfter().Local().Format("2006-01-02 15:04:05"), span(-left))
	}
	if f.Managed() {
		c.out.line("renewed  by the host that wrote it")
	} else {
		c.out.line("renewed  by the resolver or agent that uses it, at one third of its life (from %s); or by: fairlead identity renew %s", f.RenewAt().Local().Format("2006-01-02"), dir)
	}
	return nil
}

type identityRenewCmd struct {
	Dir   string `arg:"" help:"Folder of the identity."`
	IfDue bool   `name:"if-due" help:"Do nothing before one third of its life is over, for a daily job."`
}

// Run shows the identity itself, and needs no operator's.
func (cmd *identityRenewCmd) Run(c *call) error {
	f, err := credential.Open(cmd.Dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	if f.Managed() {
		return fault.New(fault.Invalid, "", "the host that wrote %s renews it", cmd.Dir)
	}
	if cmd.IfDue && time.Now().Before(f.RenewAt()) {
		revoked, said := c.isRevoked(f)
		return c.tell(f, cmd.Dir, revoked, said)
	}
	address, err := c.tlsAddress()
	if err != nil {
		return err
	}
	if err := c.reach(f, address); err != nil {
		return err
	}
	if err := f.Renew(c.ctx, renewAt(f, address)); err != nil {
		return err
	}
	return c.tellIdentity(cmd.Dir)
}

// dialBy finds the API as an operator, or shows the identity of a folder.
func (c *call) dialBy(folder string) (*client, error) {
	if folder == "" {
		return c.dial()
	}
	f, err := credential.Open(folder)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	address, err := c.tlsAddress()
	if err != nil {
		return nil, err
	}
	if err := c.reach(f, address); err != nil {
		return nil, err
	}
	return c.newClient(&http.Transport{TLSClientConfig: f.TLS("control")}, "https://"+address), nil
}

// tlsAddress is where control is shown an identity.
func (c *call) tlsAddress() (string, error) {
	api := orDefault(c.opts.API, DefaultAPI)
	if path, ok := socketPath(api); ok {
		return "", fault.New(fault.Invalid, "name control by --api HOST:PORT", "an identity is shown by TLS, and not at the socket %s", path)
	}
	return api, nil
}

// reach says whether control is there at all.
func (c *call) reach(f *credential.Folder, address string) error {
	probe, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: dialWait}, Config: f.TLS("control")}).DialContext(c.ctx, "tcp", address)
	if err != nil {
		return &unreachableError{fmt.Errorf("cannot reach control at %s: %w", address, err)}
	}
	return probe.Close()
}

// renewAt asks the control at the address.
func renewAt(f *credential.Folder, address string) credential.Call {
	return func(ctx context.Context, csr []byte) (cert, bundle []byte, err error) {
		// gRPC wherever it lands: a valid identity is served among roles, an expired one beside operators.
		transport := &http.Transport{TLSClientConfig: f.TLS("control"), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		client := fairleadv1connect.NewIdentityServiceClient(&http.Client{Transport: transport}, "https://"+address, connect.WithGRPC())
		resp, err := client.Renew(ctx, connect.NewRequest(&fairleadv1.RenewRequest{CsrPem: csr}))
		if err != nil {
			return nil, nil, remote(err)
		}
		return resp.Msg.GetCertificatePem(), resp.Msg.GetBundlePem(), nil
	}
}
