package evidence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Segment is a run of sealed ticks as it is kept: a line of JSON that says what
// follows, then the ticks, compressed and checksummed by zstd. It names its
// instances, so that it can be read with nothing else at hand.
type Segment struct {
	Incarnation string
	Instances   []Named
	Ticks       []Tick
}

// Named says which instance a handle means within a segment.
type Named struct {
	Handle  uint32 `json:"handle"`
	ID      string `json:"id"`
	Service string `json:"service"`
}

// head is the first line of a segment.
type head struct {
	Format      string  `json:"format"`
	Incarnation string  `json:"incarnation"`
	First       int64   `json:"first"`
	Last        int64   `json:"last"`
	Instances   []Named `json:"instances"`
}

const (
	format = "fairlead evidence 1"
	// withCharges has, in each row, what was charged to callers. A segment without
	// any is written so that earlier programs read it.
	withCharges = "fairlead evidence 2"
	// withUnanswered has, in each count of outcomes, those that went unanswered, and
	// the charges. It is written where there are such.
	withUnanswered = "fairlead evidence 3"
	maxSegment     = 256 << 20 // bytes, unpacked
	maxHeadLine    = 64 << 20
)

// ErrSegment wraps what is wrong with a segment that cannot be read: torn, not
// ours, or of a newer program.
var ErrSegment = errors.New("the segment cannot be read")

// Encode writes the segment. There must be a tick.
func (s *Segment) Encode(w io.Writer) error {
	if len(s.Ticks) == 0 {
		return errors.New("cannot encode a segment without ticks")
	}
	f := s.format()
	l := layoutOf(f)
	h, err := json.Marshal(head{f, s.Incarnation, s.Ticks[0].Number, s.Ticks[len(s.Ticks)-1].Number, s.Instances})
	if err != nil {
		return fmt.Errorf("cannot encode a segment: %w", err)
	}
	if _, err := w.Write(append(h, '\n')); err != nil {
		return fmt.Errorf("cannot write a segment: %w", err)
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("cannot compress a segment: %w", err)
	}
	var b []byte
	for _, t := range s.Ticks {
		b = appendTick(b[:0], t, l)
		if _, err := z.Write(b); err != nil {
			return errors.Join(fmt.Errorf("cannot write a segment: %w", err), z.Close())
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("cannot write a segment: %w", err)
	}
	return nil
}

// format is the earliest that says all that there is.
func (s *Segment) format() string {
	f := format
	for _, t := range s.Ticks {
		for i := range t.Rows {
			if t.Rows[i].Charged != nil {
				f = withCharges
			}
			if slices.ContainsFunc(t.Rows[i].Outcomes, func(o eligibility.Outcomes) bool { return o.Unanswered > 0 }) {
				return withUnanswered
			}
		}
	}
	return f
}

// layout is what rows of a format have beside those of the first.
type layout struct{ charges, unanswered bool }

func layoutOf(f string) layout {
	return layout{charges: f == withCharges || f == withUnanswered, unanswered: f == withUnanswered}
}

// Decode reads a segment. The error wraps ErrSegment where the content is at
// fault.
func Decode(r io.Reader) (*Segment, error) {
	all, err := io.ReadAll(io.LimitReader(r, maxSegment))
	if err != nil {
		return nil, fmt.Errorf("cannot read a segment: %w", err)
	}
	line, packed, ok := bytes.Cut(all, []byte{'\n'})
	var h head
	if !ok || len(line) > maxHeadLine || json.Unmarshal(line, &h) != nil || !slices.Contains([]string{format, withCharges, withUnanswered}, h.Format) {
		return nil, fmt.Errorf("%w: its first line is not that of a %q, %q or %q", ErrSegment, format, withCharges, withUnanswered)
	}
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSegment))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSegment, err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSegment, err)
	}
	s := &Segment{Incarnation: h.Incarnation, Instances: h.Instances}
	d := decoder{b: plain, layout: layoutOf(h.Format)}
	for len(d.b) > 0 {
		s.Ticks = append(s.Ticks, d.tick())
		if d.bad {
			return nil, fmt.Errorf("%w: its ticks end in the middle of one", ErrSegment)
		}
	}
	if len(s.Ticks) == 0 || s.Ticks[0].Number != h.First || s.Ticks[len(s.Ticks)-1].Number != h.Last {
		return nil, fmt.Errorf("%w: it does not hold the ticks %d to %d that it names", ErrSegment, h.First, h.Last)
	}
	return s, nil
}

func appendTick(b []byte, t Tick, l layout) []byte {
	b = binary.AppendVarint(b, t.Number)
	b = binary.AppendUvarint(b, uint64(len(t.Rows)))
	for _, r := range t.Rows {
		b = binary.AppendUvarint(b, uint64(r.Instance))
		b = binary.AppendUvarint(b, uint64(len(r.Probes)))
		for _, p := range r.Probes {
			b = binary.AppendUvarint(b, uint64(p.Prober))
			b = append(b, byte(p.Result), flag(p.Suspect))
			b = binary.AppendUvarint(b, uint64(p.Count))
		}
		b = append(b, flag(r.Self != nil))
		if r.Self != nil {
			b = append(b, flag(r.Self.Ready), flag(r.Self.Draining))
			b = binary.AppendUvarint(b, uint64(len(r.Self.Dependencies)))
			for _, d := range r.Self.Dependencies {
				b = binary.AppendUvarint(b, uint64(d))
			}
		}
		b = binary.AppendUvarint(b, uint64(len(r.Outcomes)))
		for _, o := range r.Outcomes {
			b = append(b, o.Span)
			for _, n := range []uint64{uint64(o.OK), uint64(o.Failed), uint64(o.Compared), o.Expected} {
				b = binary.AppendUvarint(b, n)
			}
			for _, s := range []eligibility.Sketch{o.Reporters, o.Hurt, o.Refusing} {
				b = binary.LittleEndian.AppendUint64(b, uint64(s))
			}
			if l.unanswered {
				b = binary.AppendUvarint(b, uint64(o.Unanswered))
			}
		}
		if l.charges {
			b = appendCharged(b, r.Charged)
		}
	}
	return b
}

func appendCharged(b []byte, c *eligibility.Charged) []byte {
	if b = append(b, flag(c != nil)); c == nil {
		return b
	}
	b = append(b, flag(c.Revision))
	b = binary.AppendUvarint(b, uint64(len(c.Caller)))
	b = append(b, c.Caller...)
	b = binary.AppendUvarint(b, uint64(c.Results))
	return binary.AppendUvarint(b, uint64(c.Failed))
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// decoder reads what appendTick wrote; once bad, it gives zeros.
type decoder struct {
	b   []byte
	bad bool
	layout
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) bytes(n int) []byte {
	if len(d.b) < n {
		d.bad, d.b = true, nil
		return make([]byte, n)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// count is a length; each of its items takes a byte at least.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) tick() (t Tick) {
	number, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return t
	}
	d.b, t.Number = d.b[size:], number
	for range d.count() {
		t.Rows = append(t.Rows, d.row())
		if d.bad {
			break
		}
	}
	return t
}

func (d *decoder) row() TickRow {
	r := TickRow{Instance: uint32(d.number())}
	for range d.count() {
		p := eligibility.Probe{Prober: uint32(d.number())}
		two := d.bytes(2)
		p.Result, p.Suspect = eligibility.Result(two[0]), two[1] == 1
		p.Count = uint16(d.number())
		r.Probes = append(r.Probes, p)
	}
	if d.bytes(1)[0] == 1 {
		two := d.bytes(2)
		r.Self = &eligibility.Self{Ready: two[0] == 1, Draining: two[1] == 1}
		for range d.count() {
			r.Self.Dependencies = append(r.Self.Dependencies, eligibility.Permille(d.number()))
		}
	}
	for range d.count() {
		o := eligibility.Outcomes{Span: d.bytes(1)[0]}
		o.OK, o.Failed, o.Compared, o.Expected = uint32(d.number()), uint32(d.number()), uint32(d.number()), d.number()
		for _, s := range []*eligibility.Sketch{&o.Reporters, &o.Hurt, &o.Refusing} {
			*s = eligibility.Sketch(binary.LittleEndian.Uint64(d.bytes(8)))
		}
		if d.unanswered {
			o.Unanswered = uint32(d.number())
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	if d.charges && d.bytes(1)[0] == 1 {
		r.Charged = &eligibility.Charged{Revision: d.bytes(1)[0] == 1, Caller: string(d.bytes(d.count()))}
		r.Charged.Results, r.Charged.Failed = uint32(d.number()), uint32(d.number())
	}
	return r
}
