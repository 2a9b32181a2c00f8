package host

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzASealedRecordIsReadAsItWasWritten(f *testing.F) {
	f.Add("a", "b", 3, byte('x'))
	f.Add("sum", `","sum":"0123456789abcdef"}`, 0, byte('}'))
	f.Fuzz(func(t *testing.T, k, v string, at int, with byte) {
		b, err := json.Marshal(map[string]string{k: v})
		if err != nil {
			t.Fatal(err)
		}
		sealed := seal(b)
		if got, err := unseal(sealed); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%s is read as %s, %v", b, got, err)
		}
		if at < 0 || at >= len(b)-1 || sealed[at] == with {
			return
		}
		sealed[at] = with // within what the checksum is of
		if got, err := unseal(sealed); err == nil {
			t.Fatalf("%s, damaged, is read as %s", b, got)
		}
	})
}

func TestAnEmptyRecordIsSealedToo(t *testing.T) {
	for _, text := range []string{"{}", `{"a":1}`} {
		if got, err := unseal(seal([]byte(text))); err != nil || string(got) != text {
			t.Errorf("%s is read as %s, %v", text, got, err)
		}
	}
	if got, err := unseal([]byte(`{"a":1}`)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("a record of an earlier version is read as %s, %v", got, err)
	}
}
