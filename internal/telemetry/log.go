// Package telemetry is how a role shows itself to those who run it: its logs,
// and a plain HTTP port with /healthz, /readyz, /metrics and, where only this
// machine can reach it or it is asked for, /debug/pprof/. It judges nothing:
// what readiness means is the check's, and what is counted is the role's. Read
// [Ops] first.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger writes to w. Format is "text" (when empty) or "json"; level is
// "debug", "info" (when empty), "warn" or "error". Anything else is an error.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{}
	if level != "" {
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("log level %q is not debug, info, warn or error", level)
		}
		opts.Level = l
	}
	switch format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, fmt.Errorf("log format %q is not text or json", format)
	}
}
