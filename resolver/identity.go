package resolver

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/credential"
)

// identify finds how the plane is dialled, and by which name; the folder is nil
// where the user has his own means.
func identify(cfg *Config) (name string, dial []grpc.DialOption, folder *credential.Folder, err error) {
	if cfg.ownDial() {
		return cfg.Name, cfg.dial(), nil, nil
	}
	folder, err = credential.Open(cfg.Identity)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return folder.Name(), []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(folder.TLS()))}, folder, nil
}

// renew has the plane sign the request, over whichever connection stands.
func (r *Resolver) renew(ctx context.Context, csr []byte) (cert, bundle []byte, err error) {
	var last error
	for _, address := range r.cfg.Plane {
		conn, err := grpc.NewClient(target(address), r.dial...)
		if err != nil {
			return nil, nil, err
		}
		got, err := pb.NewIdentityServiceClient(conn).Renew(ctx, &pb.RenewRequest{CsrPem: csr})
		_ = conn.Close() // it fails only where it was closed before
		if err == nil {
			return got.GetCertificatePem(), got.GetBundlePem(), nil
		}
		last = err
	}
	return nil, nil, last
}
