package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/fairlead-platform/fairlead/internal/store"
)

func FuzzWhatIsValidIsWithinTheLimits(f *testing.F) {
	f.Add("id", "kind", "name", []byte(`{"a":1}`))
	f.Add("", "Kind", "a\nb", []byte("{"))
	f.Add("\xff", "a/b", "a\xff", []byte("\"\xff\""))
	f.Fuzz(func(t *testing.T, id, kind, name string, body []byte) {
		a := store.Apply{ID: id, Writes: []store.Write{{Key: store.Key{Kind: kind, Name: name}, Body: body}}}
		err := a.Validate()
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("got %v, want it to wrap %v", err, store.ErrInvalid)
			}
			return
		}
		for _, c := range []struct {
			text  string
			limit int
		}{{id, store.MaxID}, {kind, store.MaxKind}, {name, store.MaxName}, {string(body), store.MaxBody}} {
			if c.text == "" || len(c.text) > c.limit || !utf8.ValidString(c.text) {
				t.Fatalf("%q passed", c.text)
			}
		}
		if !json.Valid(body) {
			t.Fatalf("%q passed as JSON", body)
		}
		a.Writes = append(a.Writes, a.Writes[0])
		if !errors.Is(a.Validate(), store.ErrInvalid) {
			t.Fatal("a key passed twice")
		}
	})
}

func FuzzTheDigestDependsOnEveryByteOfTheContent(f *testing.F) {
	f.Add("a", "b", []byte("1"), uint64(1), "ab", "", []byte("1"), uint64(1))
	f.Fuzz(func(t *testing.T, kind1, name1 string, body1 []byte, v1 uint64, kind2, name2 string, body2 []byte, v2 uint64) {
		one := store.Apply{Writes: []store.Write{{Key: store.Key{Kind: kind1, Name: name1}, Expect: v1, Body: body1}}}
		two := store.Apply{Writes: []store.Write{{Key: store.Key{Kind: kind2, Name: name2}, Expect: v2, Body: body2}}}
		equal := kind1 == kind2 && name1 == name2 && string(body1) == string(body2) && v1 == v2
		if (one.Digest() == two.Digest()) != equal {
			t.Fatalf("equal is %t, the digests say otherwise", equal)
		}
		check := store.Apply{Checks: []store.Check{{Key: one.Writes[0].Key, Version: v1}}}
		if check.Digest() == one.Digest() {
			t.Fatal("a check has the digest of a write")
		}
	})
}

func TestOnlyDeletesIsOfWritesAlone(t *testing.T) {
	remove, put := store.Write{Delete: true}, store.Write{}
	for _, c := range []struct {
		writes []store.Write
		want   bool
	}{{nil, false}, {[]store.Write{remove}, true}, {[]store.Write{remove, remove}, true}, {[]store.Write{remove, put}, false}} {
		if got := (store.Apply{Writes: c.writes}).OnlyDeletes(); got != c.want {
			t.Errorf("%+v: got %t", c.writes, got)
		}
	}
}
