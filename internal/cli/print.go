package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"
)

// printer writes answers in the form that was asked for.
type printer struct {
	io.Writer
	form     string // table, json or yaml
	terminal bool
	color    bool
}

func newPrinter(env Env, form string) *printer {
	terminal := isTerminal(env.Stdout)
	return &printer{Writer: env.Stdout, form: form, terminal: terminal, color: terminal && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"}
}

// table says whether people read the output.
func (p *printer) table() bool { return p.form == "table" }

// message writes m as JSON or YAML. Numbers stay numbers, and what is not set
// is written too.
func (p *printer) message(m proto.Message) error {
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil { // protojson varies its spaces on purpose
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	out.WriteByte('\n')
	if p.form == "yaml" {
		text, err := yaml.JSONToYAML(out.Bytes())
		if err != nil {
			return fmt.Errorf("cannot encode the answer: %w", err)
		}
		out.Reset()
		out.Write(text)
	}
	_, err = p.Write(out.Bytes())
	return err
}

// value writes v as JSON or YAML.
func (p *printer) value(v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err == nil && p.form == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	_, err = fmt.Fprintln(p, strings.TrimRight(string(raw), "\n"))
	return err
}

// rows writes a table with a heading.
func (p *printer) rows(heading string, rows [][]string) {
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(strings.Fields(heading), "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // a reader that went away cannot be told
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

const (
	green = "32"
	red   = "31"
	faint = "2"
	bold  = "1"
)

func (p *printer) paint(color, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// span is a duration as a person reads it: "12 ms", "3.4 s", "2 m 5 s".
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func spanOf(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return span(d.AsDuration())
}

func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
