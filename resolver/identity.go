package resolver

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/credential"
)

// identify finds how the plane is dialled, and by which name. The folder is nil
// where the user has his own means. One that holds nothing yet will do: a host
// may fill it later.
func identify(cfg *Config) (views ViewsConfig, folder *credential.Folder, err error) {
	if cfg.ownDial() {
		return ViewsConfig{Name: cfg.Name, Dial: cfg.dial()}, nil, nil
	}
	if _, err := os.Stat(cfg.Identity); err != nil {
		return views, nil, fmt.Errorf("%w: the folder of the identity: %w", ErrConfig, err)
	}
	folder, err = credential.Open(cfg.Identity)
	if err != nil && !errors.Is(err, credential.ErrNone) {
		return views, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	dial := append([]grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(folder.TLS()))}, cfg.Dial...)
	return ViewsConfig{Name: "by identity", name: folder.Name, Dial: dial}, folder, nil
}

// renewal asks the plane's addresses in turn to sign a request.
func renewal(plane []string, dial []grpc.DialOption) credential.Call {
	return func(ctx context.Context, csr []byte) (cert, bundle []byte, err error) {
		for _, address := range plane {
			var got *pb.RenewResponse
			if got, err = renewAt(ctx, address, dial, csr); err == nil {
				return got.GetCertificatePem(), got.GetBundlePem(), nil
			}
		}
		return nil, nil, err
	}
}

func renewAt(ctx context.Context, address string, dial []grpc.DialOption, csr []byte) (got *pb.RenewResponse, err error) {
	conn, err := grpc.NewClient(target(address), dial...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return pb.NewIdentityServiceClient(conn).Renew(ctx, &pb.RenewRequest{CsrPem: csr})
}
