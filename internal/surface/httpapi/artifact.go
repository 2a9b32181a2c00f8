package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

const artifactPrefix = "artifacts/"

// ArtifactName is a digest's name in the bucket.
func ArtifactName(digest string) string { return artifactPrefix + digest }

// HasArtifact says whether the digest is stored already. It then stays for a
// while, so that a deploy can name it.
func (a *API) HasArtifact(ctx context.Context, req *connect.Request[fairleadv1.HasArtifactRequest]) (*connect.Response[fairleadv1.HasArtifactResponse], error) {
	digest := req.Msg.GetDigest()
	if err := service.CheckDigest(digest); err != nil {
		return nil, err
	}
	a.uses.deploys.RLock()
	defer a.uses.deploys.RUnlock()
	_, err := a.Bucket.Stat(ctx, ArtifactName(digest))
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		a.uses.touch(digest, a.Now())
	}
	return connect.NewResponse(&fairleadv1.HasArtifactResponse{Present: err == nil}), nil
}

// UploadArtifact stores a file whose digest and size the first message names.
// What does not match them is not stored.
func (a *API) UploadArtifact(ctx context.Context, stream *connect.ClientStream[fairleadv1.UploadArtifactRequest]) (*connect.Response[fairleadv1.UploadArtifactResponse], error) {
	if !stream.Receive() {
		return nil, firstError(stream.Err(), fault.New(fault.Invalid, "", "the upload is empty"))
	}
	header := stream.Msg().GetHeader()
	if header == nil {
		return nil, fault.New(fault.Invalid, "send the header with digest and size first", "the upload does not begin with its header")
	}
	if err := a.checkHeader(header); err != nil {
		return nil, err
	}
	a.uses.touch(header.GetDigest(), a.Now())
	in := &upload{stream: stream, digest: header.GetDigest(), left: header.GetSize(), sum: sha256.New()}
	_, err := a.Bucket.Put(ctx, ArtifactName(in.digest), in, true)
	if err != nil {
		in.drain()
	}
	if err != nil && !errors.Is(err, bucket.ErrExists) {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.UploadArtifactResponse{Digest: in.digest}), nil
}

func (a *API) checkHeader(h *fairleadv1.ArtifactHeader) error {
	if err := service.CheckDigest(h.GetDigest()); err != nil {
		return err
	}
	if h.GetSize() < 0 || h.GetSize() > a.MaxArtifact {
		return fault.New(fault.Invalid, "", "a file of %d bytes cannot be taken: at most %d are", h.GetSize(), a.MaxArtifact)
	}
	return nil
}

func firstError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// upload reads the chunks of a stream, and ends with an error instead of
// io.EOF where they are not what the header named: a Put then keeps nothing.
type upload struct {
	stream *connect.ClientStream[fairleadv1.UploadArtifactRequest]
	digest string
	left   int64 // bytes that the header promised and that have not come
	sum    hash.Hash
	chunk  []byte // received and not read yet
}

func (u *upload) Read(p []byte) (int, error) {
	for len(u.chunk) == 0 {
		if !u.stream.Receive() {
			return 0, u.end()
		}
		u.chunk = u.stream.Msg().GetChunk()
		if u.left -= int64(len(u.chunk)); u.left < 0 {
			return 0, fault.New(fault.Invalid, "the file changed while it was sent: deploy again when it is whole", "more bytes came than were promised")
		}
		u.sum.Write(u.chunk) // never fails
	}
	n := copy(p, u.chunk)
	u.chunk = u.chunk[n:]
	return n, nil
}

// drain takes the rest of what was promised: over HTTP/1.1 an answer that comes
// before the end of its request may never be read.
func (u *upload) drain() {
	for u.left >= 0 && u.stream.Receive() {
		u.left -= int64(len(u.stream.Msg().GetChunk()))
	}
}

func (u *upload) end() error {
	if err := u.stream.Err(); err != nil {
		return err
	}
	const hint = "the file changed while it was sent: deploy again when it is whole"
	if u.left != 0 {
		return fault.New(fault.Invalid, hint, "%d bytes fewer came than were promised", u.left)
	}
	if got := "sha256:" + hex.EncodeToString(u.sum.Sum(nil)); got != u.digest {
		return fault.New(fault.Invalid, hint, "the bytes that came have the digest %s, not %s", got, u.digest)
	}
	return io.EOF
}
