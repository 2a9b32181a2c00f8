package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// world is what the steps of the test's saga act on: a set of names.
type world struct {
	stands map[string]bool
	log    []string
	fail   map[string]error // :: "do a" or "undo a" → its error, once
	stop   func()           // called by the step named in stopAt
	stopAt string
	twice  bool
}

func (w *world) step(name string) StepDefinition {
	once := func(_ context.Context, r *Run) error {
		w.log = append(w.log, "do "+name)
		if w.stopAt == name {
			w.stop()
		}
		if err := w.fail["do "+name]; err != nil {
			delete(w.fail, "do "+name)
			return err
		}
		w.stands[name] = true
		r.Text("did %s", name)
		r.Stage("with " + name)
		return nil
	}
	return StepDefinition{
		Name: name,
		Do: func(ctx context.Context, r *Run) error {
			if w.twice {
				if err := once(ctx, r); err != nil {
					return err
				}
				r.staged = nil
			}
			return once(ctx, r)
		},
		Stands: func(context.Context, *Run) (bool, error) { return w.stands[name], nil },
		Undo: func(context.Context, *Run) error {
			w.log = append(w.log, "undo "+name)
			if err := w.fail["undo "+name]; err != nil {
				delete(w.fail, "undo "+name)
				return err
			}
			delete(w.stands, name)
			return nil
		},
	}
}

func newWorld() *world {
	return &world{stands: map[string]bool{}, fail: map[string]error{}}
}

func (w *world) definition() Definition {
	return Definition{Kind: "test", Version: 2, Steps: []StepDefinition{w.step("a"), w.step("b"), w.step("c")}}
}

// journal is a durable record and what was staged with its saves.
type journal struct {
	record  Record
	version uint64
	staged  []string
	saves   int
	errAt   int
	err     error
	landed  bool
}

func (j *journal) Save(ctx context.Context, r Record, version uint64, staged []any) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	j.saves++
	fails := j.errAt != 0 && j.saves == j.errAt
	if fails && !j.landed {
		return 0, j.err
	}
	if version != j.version {
		return 0, fmt.Errorf("version %d stands, not %d", j.version, version)
	}
	j.record, j.version = r, j.version+1
	for _, s := range staged {
		j.staged = append(j.staged, s.(string))
	}
	if fails {
		return 0, j.err
	}
	return j.version, nil
}

func (j *journal) Load(context.Context, string) (Record, uint64, error) {
	return j.record, j.version, nil
}

type clock struct{ now time.Time }

func (c *clock) Now() time.Time {
	c.now = c.now.Add(time.Second)
	return c.now
}

func engine(j *journal) *Engine {
	c := &clock{now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	return &Engine{Journal: j, Now: c.Now}
}

func newRecord(d Definition) Record {
	return d.New(Identity{Owner: "hello", Kind: "test", Subject: "hello-00001", Minted: "01"}, 1)
}

func drive(t *testing.T, e *Engine, d Definition, r Record, version uint64) Record {
	t.Helper()
	out, err := e.Drive(t.Context(), d, r, version)
	if err != nil {
		t.Fatalf("Drive: %v", err)
	}
	return out
}

func TestEachStepIsRecordedBeforeTheNextBegins(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	for i := range d.Steps {
		do := d.Steps[i].Do
		d.Steps[i].Do = func(ctx context.Context, r *Run) error {
			for k := range i {
				if j.record.Steps[k].State != stepDone {
					t.Errorf("%s began before %s was recorded", d.Steps[i].Name, d.Steps[k].Name)
				}
			}
			if i > 0 && j.record.Steps[i].State != stepRunning {
				t.Errorf("the beginning of %s was not recorded", d.Steps[i].Name)
			}
			return do(ctx, r)
		}
	}
	r := drive(t, engine(j), d, newRecord(d), 0)
	if r.State != Done || j.record.State != Done || r.At() != "" || r.Ended.IsZero() {
		t.Errorf("the record is %+v", r)
	}
	if j.saves != 3 || !slices.Equal(j.staged, []string{"with a", "with b", "with c"}) {
		t.Errorf("%d saves, staged %q", j.saves, j.staged)
	}
}

func TestEveryStepMayRunTwice(t *testing.T) {
	w, j := newWorld(), &journal{}
	w.twice = true
	d := w.definition()
	if r := drive(t, engine(j), d, newRecord(d), 0); r.State != Done || len(j.staged) != 3 {
		t.Errorf("%+v, staged %q", r, j.staged)
	}
}

func TestAKilledRunResumesAtTheFirstStepThatIsNotDone(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	resumed := 0
	d.Resume = func(context.Context, *Run) error { resumed++; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	w.stop, w.stopAt = cancel, "b"
	if _, err := engine(j).Drive(ctx, d, newRecord(d), 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("Drive: %v", err)
	}
	if j.record.At() != "b" || j.record.State != Running {
		t.Fatalf("the record is %+v", j.record)
	}
	w.log, w.stopAt = nil, ""
	r := drive(t, engine(j), d, j.record, j.version)
	if r.State != Done || r.Attempt != 1 || resumed != 1 || !slices.Equal(w.log, []string{"do b", "do c"}) {
		t.Errorf("%s, attempt %d, resumed %d, did %q", r.State, r.Attempt, resumed, w.log)
	}
}

func TestAResumeDoesAgainWhatNoLongerStands(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	ctx, cancel := context.WithCancel(t.Context())
	w.stop, w.stopAt = cancel, "c"
	if _, err := engine(j).Drive(ctx, d, newRecord(d), 0); err == nil {
		t.Fatal("it was not cut")
	}
	delete(w.stands, "a")
	w.log, w.stopAt = nil, ""
	r := drive(t, engine(j), d, j.record, j.version)
	if r.State != Done || !slices.Equal(w.log, []string{"do a", "do b", "do c"}) {
		t.Errorf("%s, did %q", r.State, w.log)
	}
}

func TestAFailedAttemptIsUndoneAndWaitsLongerEachTime(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	var ended []State
	d.Ending = func(r *Run, s State) { ended = append(ended, s); r.Stage("ending") }
	e := engine(j)
	r := newRecord(d)
	for attempt, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		w.fail["do c"] = &Failure{Reason: "it broke", LastLines: []string{"panic"}}
		w.log = nil
		r = drive(t, e, d, r, j.version)
		if r.State != Waiting || r.Backoff != wait || int(r.Attempt) != attempt+1 || !r.RetryAt.Equal(e.Now().Add(-time.Second).Add(wait)) {
			t.Fatalf("attempt %d: %+v", attempt+1, r)
		}
		if r.Error != "it broke" || r.FailedStep != "c" || !slices.Equal(r.LastLines, []string{"panic"}) {
			t.Fatalf("it does not say why: %+v", r)
		}
		if s := r.Steps[2]; s.State != stepFailed || s.Text != "it broke" {
			t.Fatalf("the step does not say why: %+v", s)
		}
		if len(w.stands) != 0 {
			t.Fatalf("left standing: %v", w.stands)
		}
	}
	r = drive(t, e, d, r, j.version)
	if r.State != Done || r.Error != "" || r.Backoff != 0 || !r.RetryAt.IsZero() {
		t.Errorf("the record is %+v", r)
	}
	if slices.Contains(j.staged[:2], "with c") || len(ended) != 7 {
		t.Errorf("staged %q, ended %v", j.staged, ended)
	}
}

func TestUndoLooksAtEveryStepLastFirst(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	w.fail["do b"] = errors.New("broke")
	r := drive(t, engine(j), d, newRecord(d), 0)
	if r.State != Waiting || !slices.Equal(w.log, []string{"do a", "do b", "undo c", "undo b", "undo a"}) {
		t.Errorf("%s: %q", r.State, w.log)
	}
}

func TestAnUndoThatFailsKeepsWhatComesBeforeItAndIsTriedAgain(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	w.fail["do c"], w.fail["undo b"] = errors.New("broke"), errors.New("cannot")
	r, err := engine(j).Drive(t.Context(), d, newRecord(d), 0)
	if err == nil || r.State != Compensating || r.RetryAt.IsZero() || !strings.Contains(r.Effects["undo"], "cannot") {
		t.Fatalf("%v: %+v", err, r)
	}
	if !w.stands["a"] || !w.stands["b"] {
		t.Error("what comes before was undone")
	}
	r = drive(t, engine(j), d, j.record, j.version)
	if r.State != Waiting || len(w.stands) != 0 || r.Effects["undo"] != "" || r.Error != "broke" {
		t.Errorf("%+v, stands %v", r, w.stands)
	}
}

func TestALaterIntentEndsTheSagaAndUndoesIt(t *testing.T) {
	for _, at := range []string{"at once", "before c", "while it waits"} {
		t.Run(at, func(t *testing.T) {
			w, j := newWorld(), &journal{}
			d := w.definition()
			e := engine(j)
			r := newRecord(d)
			if at != "before c" {
				w.fail["do b"] = errors.New("broke")
				r = drive(t, e, d, r, 0)
			}
			e.Interrupt = func(r Record) error {
				if at == "before c" && r.At() != "c" {
					return nil
				}
				return fmt.Errorf("%w: generation 2", ErrSuperseded)
			}
			r = drive(t, e, d, r, j.version)
			if r.State != Superseded || r.Ended.IsZero() || len(w.stands) != 0 || r.Open() {
				t.Errorf("%+v, stands %v", r, w.stands)
			}
		})
	}
}

func TestAnAbortEndsItFailed(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	w.fail["do b"] = fmt.Errorf("%w by ann", ErrAborted)
	if r := drive(t, engine(j), d, newRecord(d), 0); r.State != Failed || r.Open() || len(w.stands) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestASagaThatIsNotKnownIsParkedAndTouchesNothing(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	for name, edit := range map[string]func(r *Record){
		"newer":     func(r *Record) { r.Definition = 3 },
		"older":     func(r *Record) { r.Definition = 1 },
		"kind":      func(r *Record) { r.Kind = "other" },
		"steps":     func(r *Record) { r.Steps = r.Steps[:2] },
		"step name": func(r *Record) { r.Steps[1].Name = "x" },
		"parked":    func(r *Record) { r.State = Parked },
	} {
		r := newRecord(d)
		edit(&r)
		if _, err := engine(j).Drive(t.Context(), d, r, 1); !errors.Is(err, ErrParked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.log) != 0 || j.saves != 0 {
		t.Errorf("did %q, %d saves", w.log, j.saves)
	}
	d.Upgrade = func(r Record) (Record, error) { r.Effects = map[string]string{"mapped": "yes"}; return r, nil }
	r := newRecord(d)
	r.Definition = 1
	if r = drive(t, engine(j), d, r, 0); r.State != Done || r.Definition != 2 || r.Effects["mapped"] != "yes" {
		t.Errorf("a mapped record: %+v", r)
	}
}

func TestAnyErrorOfTheJournalAtAnySaveEndsInTheSameSagaDone(t *testing.T) {
	for _, landed := range []bool{false, true} {
		for at := 1; at <= 6; at++ {
			t.Run(fmt.Sprintf("landed %v, save %d", landed, at), func(t *testing.T) {
				w, j := newWorld(), &journal{errAt: at, err: errors.New("store"), landed: landed}
				d := w.definition()
				w.fail["do c"] = errors.New("broke") // so that compensation is saved, too
				e := engine(j)
				r := newRecord(d)
				for range 6 {
					_, _ = e.Drive(t.Context(), d, r, j.version) // its error is what the test makes
					if j.version > 0 {
						r = j.record
					}
					if r.State == Done {
						break
					}
				}
				if r.State != Done || len(w.stands) != 3 {
					t.Errorf("%+v, stands %v, did %q", r, w.stands, w.log)
				}
			})
		}
	}
}

func TestAStaleCompletionIsDoneAgain(t *testing.T) {
	w, j := newWorld(), &journal{errAt: 2, err: fmt.Errorf("catalog: %w", ErrStale)}
	d := w.definition()
	r := drive(t, engine(j), d, newRecord(d), 0)
	if r.State != Done || !slices.Equal(w.log, []string{"do a", "do b", "do b", "do c"}) || len(j.staged) != 3 {
		t.Errorf("%s, did %q, staged %q", r.State, w.log, j.staged)
	}
}

func TestIdentitiesOfOneInstantDiffer(t *testing.T) {
	a := Identity{Owner: "hello", Kind: "deploy", Subject: "hello-00001", Minted: "01A"}
	b := a
	b.Minted = "01B"
	if a.String() == b.String() || OwnerOf(a.String()) != "hello" {
		t.Errorf("%s, %s", a, b)
	}
	if got := (Identity{Owner: "o", Kind: "delete", Minted: "x"}).String(); got != "o.delete.-.x" {
		t.Error(got)
	}
}

func TestADefinitionSaysHowEachStepIsUndoneOrWhyNot(t *testing.T) {
	d := newWorld().definition()
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	d.Steps[1].Undo = nil
	if d.Check() == nil {
		t.Error("a step without an undo and a reason is accepted")
	}
	d.Steps[1].NoUndo = "it only looks"
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	if (Definition{Kind: "x"}).Check() == nil {
		t.Error("a definition without steps is accepted")
	}
}

func TestTheRecordThatWasGivenIsNotChanged(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	given := newRecord(d)
	given.Effects = map[string]string{"x": "y"}
	w.fail["do c"] = errors.New("broke")
	drive(t, engine(j), d, given, 0)
	if given.Steps[0].State != "" || len(given.Effects) != 1 || given.At() != "a" {
		t.Errorf("it is %+v", given)
	}
}

func TestASagaThatIsHeldStopsBeforeItsNextStepSaysSoAndGoesOn(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	e := engine(j)
	hold := "a person holds it"
	e.Hold = func(r Record) string {
		if r.At() == "b" {
			return hold
		}
		return ""
	}
	r := drive(t, e, d, newRecord(d), 0)
	if r.State != Running || r.At() != "b" || j.record.Held != hold || !slices.Equal(w.log, []string{"do a"}) {
		t.Fatalf("%+v, did %q", j.record, w.log)
	}
	saves := j.saves
	if drive(t, e, d, j.record, j.version); j.saves != saves {
		t.Error("that it is held was recorded again")
	}
	hold = ""
	if r := drive(t, e, d, j.record, j.version); r.State != Done || r.Held != "" || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsHeldIsEndedByAnAbort(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	e := engine(j)
	var abort error
	e.Hold = func(r Record) string { return "held" }
	e.Interrupt = func(Record) error { return abort }
	drive(t, e, d, newRecord(d), 0)
	abort = fmt.Errorf("%w: by a person", ErrAborted)
	if r := drive(t, e, d, j.record, j.version); r.State != Failed || len(w.stands) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAQuietStepIsRecordedWithTheNextSaveAndDoneAgainWhereThatWasLost(t *testing.T) {
	w, j := newWorld(), &journal{}
	d := w.definition()
	looked := 0
	d.Steps[0] = StepDefinition{Name: "a", Quiet: true, NoUndo: "it looks", Do: func(context.Context, *Run) error { looked++; return nil }}
	j.errAt, j.err = 1, errors.New("the store failed")
	e := engine(j)
	if _, err := e.Drive(t.Context(), d, newRecord(d), 0); err == nil || looked != 1 || j.record.ID != "" {
		t.Fatalf("the first save is not that of the second step: %+v, %v", j.record, err)
	}
	j.errAt = 0
	if r := drive(t, e, d, newRecord(d), 0); r.State != Done || looked != 2 || r.Steps[0].State != "done" {
		t.Errorf("%+v, looked %d times", r, looked)
	}
}
