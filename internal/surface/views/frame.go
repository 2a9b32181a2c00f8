package views

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// frameKey names a change to the newest view: from one of a version and a
// content, or from nothing.
type frameKey struct {
	base   view.Version
	digest view.Digest
}

// frame is one change, encoded once for all who need it, as a message of its own
// and as a part of one.
type frame struct {
	base, to *view.Service // base may be nil
	under    view.Epoch    // of the welcome that it is sent after
	nature   view.Nature

	single sync.Once
	msg    grpc.PreparedMsg
	err    error

	among   sync.Once
	part    []byte // a ViewChanges that has only this one
	partErr error
}

func (f *frame) proto() *pb.ViewChange {
	change := f.to.ChangeFrom(f.base)
	change.Nature = f.nature
	return wire.ChangeProto(change, f.under)
}

// encoded is the message; by is any stream of this server.
func (f *frame) encoded(by pb.SubscriptionService_SubscribeServer) (*grpc.PreparedMsg, error) {
	f.single.Do(func() {
		f.err = f.msg.Encode(by, &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Change{Change: f.proto()}})
	})
	return &f.msg, f.err
}

func (f *frame) encodedAmong() ([]byte, error) {
	f.among.Do(func() {
		f.part, f.partErr = proto.Marshal(&pb.ViewChanges{Changes: []*pb.ViewChange{f.proto()}})
	})
	return f.part, f.partErr
}

const (
	featureSeveral = "several"
	// mostTogether changes are in one message, and after so many endpoints of
	// whole views no more.
	mostTogether  = 16
	mostEntire    = 1000
	changesNumber = 11 // of SubscribeResponse.changes
)

// together is one message of several changes. What it has of each is encoded
// already: encodings of parts, one after the other, are that of the whole.
func together(frames []*frame) (*pb.SubscribeResponse, error) {
	size := 0
	var parts [mostTogether][]byte
	for i, f := range frames {
		part, err := f.encodedAmong()
		if err != nil {
			return nil, err
		}
		parts[i] = part
		size += len(part)
	}
	b := protowire.AppendTag(make([]byte, 0, size+16), changesNumber, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	for _, part := range parts[:len(frames)] {
		b = append(b, part...)
	}
	m := &pb.SubscribeResponse{}
	m.ProtoReflect().SetUnknown(b)
	return m, nil
}
