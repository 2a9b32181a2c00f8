package httpapi

import (
	"context"
	"sync"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// StreamLogs sends what a service's instances wrote, and, when followed, what
// they write.
func (a *API) StreamLogs(ctx context.Context, req *connect.Request[fairleadv1.StreamLogsRequest], stream *connect.ServerStream[fairleadv1.StreamLogsResponse]) error {
	m := req.Msg
	if _, _, err := a.desired(ctx, m.GetService()); err != nil {
		return err
	}
	if m.GetTailLines() < 0 {
		return fault.New(fault.Invalid, "", "%d lines cannot be shown: give a positive number", m.GetTailLines())
	}
	q := service.LogQuery{Service: m.GetService(), Instance: m.GetInstance(), Tail: int(m.GetTailLines()), Follow: m.GetFollow()}
	if q.Tail == 0 {
		q.Tail = 100
	}
	// Headers leave with the first message: the caller learns that it follows.
	if err := stream.Send(&fairleadv1.StreamLogsResponse{}); err != nil {
		return err
	}
	// Several hosts may answer at once, and a stream takes one at a time.
	var one sync.Mutex
	return a.Logs.Logs(ctx, q, func(lines []service.LogLine) error {
		one.Lock()
		defer one.Unlock()
		out := &fairleadv1.StreamLogsResponse{}
		for _, l := range lines {
			out.Entries = append(out.Entries, &fairleadv1.LogEntry{Instance: l.Instance, Revision: l.Revision, Text: l.Text})
		}
		return stream.Send(out)
	})
}
