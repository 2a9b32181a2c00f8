package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

func TestAFileThatChangesWhileItIsCopiedIsRefused(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"it grows": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("more")
			return errors.Join(err, f.Close())
		},
		"it is cut": func(path string) error { return os.Truncate(path, 10) },
		"it is replaced by one of the same content": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".new", b, 0o755), os.Rename(path+".new", path))
		},
		"it is removed": os.Remove,
	} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, make([]byte, 3*chunkSize), 0o755); err != nil {
			t.Fatal(err)
		}
		a := &artifact{path: path}
		first := true
		_, err := a.read(func([]byte) error {
			if !first {
				return nil
			}
			first = false
			return change(path)
		})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "changed while it was read: nothing was deployed") {
			t.Errorf("%s: %v", name, err)
		}
		if a.path = filepath.Join(t.TempDir(), "still"); os.WriteFile(a.path, []byte("#!/bin/sh\n"), 0o755) != nil {
			t.Fatal("cannot write")
		}
		if _, err := a.read(func([]byte) error { return nil }); err != nil {
			t.Errorf("a file that stands still: %v", err)
		}
	}
}
