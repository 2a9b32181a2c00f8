package resolver

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/view"
)

// whole is a snapshot with every field of an endpoint, and of what it is in,
// different from zero.
func whole(t testing.TB) view.ServiceSnapshot {
	t.Helper()
	var s view.ServiceSnapshot
	s.Told.Endpoints = make([]view.Endpoint, 2)
	for i := range s.Told.Endpoints {
		v := reflect.ValueOf(&s.Told.Endpoints[i]).Elem()
		for f := range v.NumField() {
			switch x := v.Field(f); x.Kind() {
			case reflect.String:
				x.SetString(v.Type().Field(f).Name + string(rune('a'+i)))
			case reflect.Int:
				x.SetInt(int64(-7 + 1000*i + f))
			case reflect.Bool:
				x.SetBool(i == 0)
			default:
				t.Fatalf("the field %s is of a kind that the file does not know", v.Type().Field(f).Name)
			}
		}
	}
	s.Told.Name, s.Told.Version = "a/b", view.Version{Region: "r", Incarnation: "i", Epoch: 1, Counter: 2}
	s.Told.Marks = []view.ZoneMark{{Group: "g", DegradedConfidence: true, Counted: 3, In: 1}}
	s.Kept = []view.Endpoint{{ID: "kept", Weight: 1000}}
	s.Objection, s.Tops = "because", []view.Version{s.Told.Version}
	return s
}

func TestAViewsFileSaysEveryFieldOfAnEndpoint(t *testing.T) {
	want := whole(t)
	b, err := viewFile.encode(want)
	if err != nil {
		t.Fatal(err)
	}
	var got dormant
	if err := errors.Join(viewFile.decode(b, &got), got.wake()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.ServiceSnapshot); diff != "" {
		t.Error(diff)
	}
	if len(want.Told.Endpoints) != 2 {
		t.Error("what was written was changed")
	}
}

func TestAViewThatAnEarlierProgramKeptIsRead(t *testing.T) {
	folder := t.TempDir()
	want := whole(t)
	want.Told.Name = "a"
	b, err := kind{magic: viewFile.magic, what: viewFile.what, format: 1}.encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a.view"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenViews(ViewsConfig{Name: "g", Folder: folder, Controls: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if v := h.View("a"); v == nil || len(v.Endpoints) != 3 {
		t.Errorf("holds %+v, notes %q", v, h.Status().Notes)
	}
}

// FuzzAViewsBody checks that no body of a file harms who reads it, and that
// what was read is written as it was.
func FuzzAViewsBody(f *testing.F) {
	b, err := marshalView(whole(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{2, '{', '}', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, body []byte) {
		var s dormant
		if unmarshalView(body, &s) != nil || s.wake() != nil {
			return
		}
		b, err := marshalView(s.ServiceSnapshot)
		if err != nil {
			t.Fatal(err)
		}
		var again dormant
		if err := errors.Join(unmarshalView(b, &again), again.wake()); err != nil {
			t.Fatal(err)
		}
		if len(again.Told.Endpoints) != len(s.Told.Endpoints) {
			t.Fatalf("%d endpoints became %d", len(s.Told.Endpoints), len(again.Told.Endpoints))
		}
	})
}
