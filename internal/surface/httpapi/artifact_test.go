package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (w *world) upload(h *fairleadv1.ArtifactHeader, body []byte) error {
	s := w.services.UploadArtifact(w.ctx)
	// What a send says of a stream that the server ended is said better by the answer.
	_ = s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Header{Header: h}})
	for len(body) > 0 {
		n := min(len(body), 1000)
		_ = s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Chunk{Chunk: body[:n]}})
		body = body[n:]
	}
	_, err := s.CloseAndReceive()
	return fault.FromConnect(err)
}

func (w *world) has(digest string) bool {
	w.t.Helper()
	r, err := w.services.HasArtifact(w.ctx, connect.NewRequest(&fairleadv1.HasArtifactRequest{Digest: digest}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Msg.Present
}

func TestAnUploadOfWhatIsStoredAlreadyIsTakenToItsEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		body := bytes.Repeat([]byte("artifact"), 2<<20) // more than waits in sockets
		w.api.MaxArtifact = int64(len(body))
		h := &fairleadv1.ArtifactHeader{Digest: digestOf(body), Size: int64(len(body))}
		for range 3 {
			s := w.services.UploadArtifact(w.ctx)
			err := s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Header{Header: h}})
			for rest := body; len(rest) > 0 && err == nil; rest = rest[64<<10:] {
				err = s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Chunk{Chunk: rest[:64<<10]}})
			}
			if err != nil {
				t.Fatalf("it was cut off: %v", err)
			}
			if _, err := s.CloseAndReceive(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAnArtifactIsStoredWholeOrNotAtAll(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		body := bytes.Repeat([]byte("artifact"), 5000)
		digest, size := digestOf(body), int64(len(body))
		for name, c := range map[string]struct {
			h    *fairleadv1.ArtifactHeader
			body []byte
		}{
			"other bytes":   {&fairleadv1.ArtifactHeader{Digest: digest, Size: size}, append([]byte("X"), body[1:]...)},
			"fewer bytes":   {&fairleadv1.ArtifactHeader{Digest: digest, Size: size}, body[1:]},
			"more bytes":    {&fairleadv1.ArtifactHeader{Digest: digest, Size: size - 1}, body},
			"too large":     {&fairleadv1.ArtifactHeader{Digest: digest, Size: 2 << 20}, body},
			"no digest":     {&fairleadv1.ArtifactHeader{Size: size}, body},
			"a path for it": {&fairleadv1.ArtifactHeader{Digest: "sha256:../../etc", Size: size}, body},
		} {
			if err := w.upload(c.h, c.body); !errors.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if w.has(digest) || len(w.bucket.held) != 0 {
			t.Fatal("something was stored")
		}
		for range 2 { // once more is not an error
			if err := w.upload(&fairleadv1.ArtifactHeader{Digest: digest, Size: size}, body); err != nil {
				t.Fatal(err)
			}
		}
		if !w.has(digest) || !bytes.Equal(w.bucket.held[ArtifactName(digest)].body, body) {
			t.Error("it is not stored as it was sent")
		}
		w.must(&fairleadv1.DeployRequest{Service: "hello", Template: &fairleadv1.Template{Command: []string{"./x"}, Artifact: digest}})
	})
}

func TestArtifactsThatNothingNamesAreCollectedAfterAGrace(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		var digests []string
		for i := range 4 {
			body := bytes.Repeat([]byte{byte(i)}, 10)
			digests = append(digests, digestOf(body))
			if err := w.upload(&fairleadv1.ArtifactHeader{Digest: digests[i], Size: 10}, body); err != nil {
				t.Fatal(err)
			}
		}
		w.must(&fairleadv1.DeployRequest{Service: "hello", Template: &fairleadv1.Template{Command: []string{"./x"}, Artifact: digests[0]}})
		w.put(service.KindRevision, "hello-00009", service.Revision{Name: "hello-00009", Service: "hello", Template: service.Template{Artifact: digests[1]}})

		if c, err := w.api.CollectArtifacts(w.ctx, time.Hour); c.Deleted != 0 || err != nil {
			t.Errorf("within the grace %+v, %v", c, err)
		}
		later := time.Now().Add(2 * time.Hour)
		w.api.Now = func() time.Time { return later }
		if !w.has(digests[2]) { // asked for just now: somebody is about to name it
			t.Fatal("it is gone")
		}
		if c, err := w.api.CollectArtifacts(w.ctx, time.Hour); c != (Collection{Deleted: 1, Freed: 10, Stored: 30}) || err != nil {
			t.Errorf("%+v, %v", c, err)
		}
		for i, want := range []bool{true, true, true, false} {
			if got := w.has(digests[i]); got != want {
				t.Errorf("artifact %d is there: %v", i, got)
			}
		}
	})
}

func TestNothingIsCollectedWhileADocumentCannotBeRead(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		if err := w.upload(&fairleadv1.ArtifactHeader{Digest: digestOf([]byte("x")), Size: 1}, []byte("x")); err != nil {
			t.Fatal(err)
		}
		w.put(service.KindDesired, "broken", []string{"no object"})
		later := time.Now().Add(2 * time.Hour)
		w.api.Now = func() time.Time { return later }
		if c, err := w.api.CollectArtifacts(w.ctx, time.Hour); c.Deleted != 0 || err == nil {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestArtifactsBeyondTheirBoundAreCollectedOldestFirstAndNeverOneThatARevisionNames(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		var digests []string
		for i := range 5 {
			body := bytes.Repeat([]byte{byte(i)}, 10)
			digests = append(digests, digestOf(body))
			if err := w.upload(&fairleadv1.ArtifactHeader{Digest: digests[i], Size: 10}, body); err != nil {
				t.Fatal(err)
			}
		}
		// The oldest is named by a revision, and kept whatever room it takes.
		w.put(service.KindRevision, "hello-00009", service.Revision{Name: "hello-00009", Service: "hello", State: service.RevisionRetired, Template: service.Template{Artifact: digests[0]}})
		w.api.MaxArtifacts = 25
		collect := func(after time.Duration, want Collection) {
			t.Helper()
			now := time.Now().Add(after)
			w.api.Now = func() time.Time { return now }
			if c, err := w.api.CollectArtifacts(w.ctx, time.Hour); c != want || err != nil {
				t.Errorf("%+v, %v; want %+v", c, err, want)
			}
		}
		collect(10*time.Second, Collection{Stored: 50}) // a deploy may be about to name them
		collect(2*time.Minute, Collection{Deleted: 3, Freed: 30, Early: 3, Stored: 20})
		for i, want := range []bool{true, false, false, false, true} {
			if got := w.has(digests[i]); got != want {
				t.Errorf("artifact %d is there: %v", i, got)
			}
		}
		w.api.MaxArtifacts = 5
		collect(5*time.Minute, Collection{Deleted: 1, Freed: 10, Early: 1, Stored: 10})
		collect(8*time.Minute, Collection{Stored: 10})
	})
}
