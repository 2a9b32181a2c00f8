package agent

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// getResolve is GET /v1/resolve/SERVICE?wait=D.
func (a *Agent) getResolve(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "wait")
	m := &fairleadv1.ResolveRequest{Service: r.PathValue("service")}
	if err == nil {
		m.Wait, err = waitOf(q)
	}
	if err != nil {
		a.reply(w, "Resolve", nil, err)
		return
	}
	resp, err := a.Resolve(r.Context(), connect.NewRequest(m))
	a.reply(w, "Resolve", message(resp), err)
}

// getPick is GET /v1/pick/SERVICE?wait=D&exclude=ID&revision=NAME&tag=NAME&verified=…&retry=true.
func (a *Agent) getPick(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "wait", "exclude", "revision", "tag", "verified", "retry")
	m := &fairleadv1.PickRequest{Service: r.PathValue("service"), Exclude: q["exclude"], Revision: q.Get("revision"), Tag: q.Get("tag"), Verified: q.Get("verified")}
	if err == nil {
		m.Wait, err = waitOf(q)
	}
	if text := q.Get("retry"); err == nil && text != "" {
		if m.Retry, err = strconv.ParseBool(text); err != nil {
			err = fault.New(fault.Invalid, "say retry=true", "retry is %q", text)
		}
	}
	if err != nil {
		a.reply(w, "Pick", nil, err)
		return
	}
	resp, err := a.Pick(r.Context(), connect.NewRequest(m))
	a.reply(w, "Pick", message(resp), err)
}

// postOutcomes is POST /v1/outcomes with a ReportRequest as JSON.
func (a *Agent) postOutcomes(w http.ResponseWriter, r *http.Request) {
	m := &fairleadv1.ReportRequest{}
	body, err := readAll(r)
	if err == nil {
		if err = protojson.Unmarshal(body, m); err != nil {
			err = fault.New(fault.Invalid, `send {"outcomes":[{"pick":"…","outcome":"good"}]}`, "the report cannot be read: %w", err)
		}
	}
	if err != nil {
		a.reply(w, "Report", nil, err)
		return
	}
	resp, err := a.Report(r.Context(), connect.NewRequest(m))
	a.reply(w, "Report", message(resp), err)
}

// getStatus is GET /v1/status.
func (a *Agent) getStatus(w http.ResponseWriter, r *http.Request) {
	resp, err := a.GetAgent(r.Context(), connect.NewRequest(&fairleadv1.GetAgentRequest{}))
	a.reply(w, "GetAgent", message(resp), err)
}

func message[T any](resp *connect.Response[T]) *T {
	if resp == nil {
		return nil
	}
	return resp.Msg
}

// query reads the parameters, and refuses those that there are not by name.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "the query cannot be read: %w", err)
	}
	for name := range q {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return nil, fault.New(fault.Invalid, "", "there is no parameter %q here", name)
		}
	}
	return q, nil
}

// waitOf is for how long a first view is waited for; none is not at all.
func waitOf(q url.Values) (*durationpb.Duration, error) {
	text := q.Get("wait")
	if text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, fault.New(fault.Invalid, "say a duration such as 500ms; more than 1s is taken for 1s", "wait is %q", text)
	}
	return durationpb.New(d), nil
}
