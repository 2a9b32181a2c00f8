package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc/credentials"
)

// Credentials are c, which must be TLS by SPIFFE identities, and besides refuse
// an instance of another service than was picked: its address was reused. That is
// charged to nobody, and the call goes elsewhere.
func Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return checked{c}
}

type checked struct {
	credentials.TransportCredentials
}

func (c checked) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	k, _ := credentials.ClientHandshakeInfoFromContext(ctx).Attributes.Value(keyKey{}).(key)
	tls, _ := info.(credentials.TLSInfo)
	if k.id != "" && tls.SPIFFEID != nil && foreign(tls.SPIFFEID, k) {
		return nil, nil, errors.Join(fmt.Errorf("cannot use %s for %s: %w: %s", k.address, k.service, errStale, tls.SPIFFEID), conn.Close())
	}
	return conn, info, nil
}

func (c checked) Clone() credentials.TransportCredentials {
	return checked{c.TransportCredentials.Clone()}
}

// foreign says that an identity is of another service or instance: ours are
// spiffe://DOMAIN/service/SERVICE, with or without the instance after it.
func foreign(id *url.URL, k key) bool {
	parts := strings.Split(strings.TrimPrefix(id.Path, "/"), "/")
	if len(parts) < 2 || parts[0] != "service" {
		return false
	}
	return parts[1] != k.service || len(parts) > 2 && parts[2] != k.id
}
