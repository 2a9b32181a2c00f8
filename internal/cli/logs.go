package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type logsCmd struct {
	Name     string        `arg:"" help:"Name of the service."`
	Follow   bool          `short:"f" name:"follow" help:"Go on with what is written. Where the API goes away, wait for it to come back."`
	Instance string        `name:"instance" placeholder:"ID" help:"Of one instance only."`
	Tail     int32         `name:"tail" placeholder:"N" default:"100" help:"How many last lines of each instance. Default: ${default}."`
	Wait     time.Duration `name:"wait" placeholder:"D" default:"10m" help:"How long to wait for an API that went away. Default: ${default}."`
}

func (cmd *logsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { cl.close() }()
	r := &logReader{cmd: cmd, out: c.out, recent: map[string][]string{}}
	for {
		err := r.read(c.ctx, cl)
		if c.ctx.Err() != nil && cmd.Follow { // Ctrl-C is how following ends
			return nil
		}
		if !cmd.Follow || !away(err) {
			return remote(err)
		}
		if r.gone.IsZero() { // once for each time that it goes away
			r.gone = time.Now()
			fmt.Fprintln(c.env.Stderr, "the API is gone; waiting for it to come back")
		}
		next := c.backWithin(cmd.Wait - time.Since(r.gone))
		switch {
		case c.ctx.Err() != nil:
			return nil
		case next == nil:
			return &unreachableError{fmt.Errorf("the API did not come back within %s: %w", cmd.Wait, err)}
		}
		cl.close()
		cl = next
		r.again()
	}
}

// backWithin dials until the API answers, or returns nil where it does not in
// time. It begins after a pause: an API that answers and ends its streams at
// once is not asked without end.
func (c *call) backWithin(d time.Duration) *client {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	pause(ctx)
	return c.again(ctx)
}

// logReader prints lines, over as many connections as it takes.
type logReader struct {
	cmd  *logsCmd
	out  *printer
	last string    // instance whose lines were printed last
	gone time.Time // since when the API is away; zero while lines come
	// recent :: instance → its last lines, as printed, to tell what comes again
	recent map[string][]string
	// resumed :: instance → what comes next of it may have been printed already
	resumed map[string]bool
}

// A connection that is made again asks for so many lines of all instances
// together: what a host sends at once.
const linesAgain = 200

// again has what was printed already left out of what comes next.
func (r *logReader) again() {
	r.resumed = map[string]bool{}
	for id := range r.recent {
		r.resumed[id] = true
	}
}

// tail is how many lines of each instance are asked for.
func (r *logReader) tail() int32 {
	if r.resumed == nil {
		return r.cmd.Tail
	}
	return int32(max(linesAgain/max(len(r.recent), 1), 10))
}

// read prints what one connection gives. Of one that is to be followed the end
// is an error.
func (r *logReader) read(ctx context.Context, cl *client) error {
	s, err := cl.StreamLogs(ctx, connect.NewRequest(&fairleadv1.StreamLogsRequest{
		Service: r.cmd.Name, Instance: r.cmd.Instance, Follow: r.cmd.Follow, TailLines: r.tail(),
	}))
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Receive() {
		entries := r.unseen(s.Msg().GetEntries())
		if len(entries) == 0 {
			continue
		}
		r.gone = time.Time{}
		if err := r.print(entries); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if r.cmd.Follow {
		return &unreachableError{errors.New("the API ended the stream")}
	}
	return nil
}

func (r *logReader) print(entries []*fairleadv1.LogEntry) error {
	if !r.out.table() {
		return r.out.message(&fairleadv1.StreamLogsResponse{Entries: entries})
	}
	for _, e := range entries {
		if e.GetInstance() != r.last && r.cmd.Instance == "" {
			r.last = e.GetInstance()
			r.out.line("%s", r.out.paint(faint, "==> "+e.GetRevision()+" "+e.GetInstance()+" <=="))
		}
		text := e.GetText()
		if r.out.terminal { // what is piped is given as it was written
			text = colored(text)
		}
		r.out.line("%s", text)
	}
	return nil
}

// unseen leaves out of the first lines of an instance that come over a new
// connection those that the last one gave.
func (r *logReader) unseen(entries []*fairleadv1.LogEntry) []*fairleadv1.LogEntry {
	drop := map[string]int{} // :: instance → how many of its lines come again
	for id, lines := range linesOf(entries) {
		if r.resumed[id] {
			drop[id] = overlap(r.recent[id], lines)
			delete(r.resumed, id)
		}
	}
	var out []*fairleadv1.LogEntry
	for _, e := range entries {
		id := e.GetInstance()
		if drop[id] > 0 {
			drop[id]--
			continue
		}
		out = append(out, e)
		if r.cmd.Follow {
			r.recent[id] = append(r.recent[id], e.GetText())
			r.recent[id] = r.recent[id][max(0, len(r.recent[id])-linesAgain):]
		}
	}
	return out
}

func linesOf(entries []*fairleadv1.LogEntry) map[string][]string {
	out := map[string][]string{} // :: instance → its lines
	for _, e := range entries {
		out[e.GetInstance()] = append(out[e.GetInstance()], e.GetText())
	}
	return out
}

// overlap is how many lines at the beginning of next are at the end of seen, or
// stand before such lines: the longest match counts, of equals the earliest, so
// that of lines that are all alike none is left out that may be new.
func overlap(seen, next []string) int {
	best, drop := 0, 0
	for end := 1; end <= len(next); end++ {
		n := min(end, len(seen))
		for n > best && !slices.Equal(seen[len(seen)-n:], next[end-n:end]) {
			n--
		}
		if n > best {
			best, drop = n, end
		}
	}
	return drop
}
