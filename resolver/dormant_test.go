package resolver

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestAStartWorksOutNoViewThatNobodyAskedFor(t *testing.T) {
	folder := t.TempDir()
	services := []string{"a", "b"}
	fillDisk(t, folder, services, 100)
	h := openFilled(t, folder)
	for _, s := range h.Status().Views {
		if s.Source != SourceDisk || s.Version.Zero() || s.Version != s.Keeps {
			t.Errorf("status of what is on disk: %+v", s)
		}
	}
	if h.hello().HoldsNothing || h.held["a"].asleep == nil || h.held["b"].asleep == nil {
		t.Error("it was worked out before somebody asked")
	}
	if v := h.View("a"); v == nil || len(v.Endpoints) != 100 {
		t.Errorf("the view of a is %+v", v)
	}
	if h.held["a"].asleep != nil || h.held["b"].asleep == nil {
		t.Error("another view was worked out than the one asked for")
	}
	if s := h.Status().Views; s[0].Source != SourceDisk || s[0].Version != s[0].Keeps {
		t.Errorf("status once it is worked out: %+v", s[0])
	}
}

// Its checksum agrees: a defect wrote it.
func TestAViewWhoseEndpointsCannotBeReadIsSetAsideAndSaidWhenItIsAskedFor(t *testing.T) {
	folder := t.TempDir()
	fillDisk(t, folder, []string{"a", "b"}, 3)
	path := filepath.Join(folder, "fairlead", "views", "a.view")
	b, _, err := readFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(b), "\n")
	length, n := binary.Uvarint([]byte(body))
	if err := os.WriteFile(path, viewFile.frame([]byte(body[:n+int(length)]+"\xff\xff")), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openFilled(t, folder)
	if v := h.View("a"); v != nil {
		t.Errorf("it is picked by: %+v", v)
	}
	if notes := fmt.Sprint(h.Status().Notes); !strings.Contains(notes, "of a: cannot read the view") || !strings.Contains(notes, "set aside as a.view.unreadable-1") {
		t.Errorf("notes: %s", notes)
	}
	if h.View("b") == nil {
		t.Error("the other one is lost")
	}
}

func TestEveryoneWhoPicksFirstFindsTheViewOnDisk(t *testing.T) {
	folder := t.TempDir()
	var services []string
	for i := range 20 {
		services = append(services, fmt.Sprintf("service-%d", i))
	}
	fillDisk(t, folder, services, 50)
	r, err := Open(t.Context(), Config{
		StateDir: folder, Plane: []string{"127.0.0.1:1"}, Name: "bench", FirstView: -1, Services: services,
		Fallback: map[string][]string{"service-0": {"127.0.0.1:2"}},
		Dial:     []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var callers sync.WaitGroup
	for _, s := range services {
		for range 4 {
			callers.Go(func() {
				p, err := r.Pick(s)
				if err != nil || p.ID() == "" {
					t.Errorf("a pick of %s is of %q: %v", s, p.ID(), err)
				}
				p.Done(Good)
			})
		}
	}
	callers.Wait()
}

func openFilled(t *testing.T, folder string) *Views {
	t.Helper()
	h, err := OpenViews(ViewsConfig{Name: "bench", Folder: filepath.Join(folder, "fairlead", "views"), Controls: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
