package identity

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// Joining is what a role joins by.
type Joining struct {
	Address string // of control, host:port
	Token   string
	Name    string // may be empty where the token is bound to one
}

// Join trades the token for an identity, and installs it in the keystore. It
// may be repeated by the same keystore and token until the token expires.
// Errors carry the codes of package fault.
func Join(ctx context.Context, k *Keystore, j Joining) (err error) {
	tok, err := ParseToken(j.Token)
	if err != nil {
		return fault.Wrap(fault.Invalid, "copy the whole token", err)
	}
	csr, err := k.NewCSR()
	if err != nil {
		return err
	}
	creds := credentials.NewTLS(bootstrapTLS(tok, k.now))
	conn, err := grpc.NewClient("dns:///"+j.Address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return fault.New(fault.Invalid, "", "cannot join at %s: %w", j.Address, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	res, err := fairleadv1.NewIdentityServiceClient(conn).Join(ctx, &fairleadv1.JoinRequest{Token: j.Token, Name: j.Name, Role: string(k.role), CsrPem: csr})
	if err != nil {
		return fmt.Errorf("cannot join at %s: %w", j.Address, fault.FromGRPC(err))
	}
	return k.Install(res.GetCertificatePem(), res.GetBundlePem())
}

// RenewOver is the call of a [Renewer] over a connection to control that was
// dialled with [ClientCredentials]. It works with an expired identity too.
func RenewOver(conn grpc.ClientConnInterface) RenewCall {
	return func(ctx context.Context, csr []byte) ([]byte, []byte, error) {
		res, err := fairleadv1.NewIdentityServiceClient(conn).Renew(ctx, &fairleadv1.RenewRequest{CsrPem: csr})
		if err != nil {
			return nil, nil, fault.FromGRPC(err)
		}
		return res.GetCertificatePem(), res.GetBundlePem(), nil
	}
}
