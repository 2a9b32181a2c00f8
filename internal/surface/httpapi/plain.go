package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

// onlyMethods answers a path that is no method of the API with the methods that
// there are.
func onlyMethods(next http.Handler) http.Handler {
	known := methods()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if known[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		var list []string
		for p := range known {
			if path.Dir(p) == path.Dir(r.URL.Path) {
				list = append(list, path.Base(p))
			}
		}
		hint := "methods of " + path.Dir(r.URL.Path) + " are " + strings.Join(slices.Sorted(slices.Values(list)), ", ")
		if len(list) == 0 {
			hint = "paths are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		}
		identity.Refuse(w, r, fault.New(fault.NotFound, hint, "there is nothing at %q", r.URL.Path))
	})
}

// methods :: path of a method that Handler serves → true
func methods() map[string]bool {
	out := map[string]bool{}
	for _, f := range []protoreflect.FileDescriptor{fairleadv1.File_fairlead_v1_operator_proto, fairleadv1.File_fairlead_v1_discovery_proto, fairleadv1.File_fairlead_v1_registry_proto, fairleadv1.File_fairlead_v1_resolve_proto, fairleadv1.File_fairlead_v1_identity_proto} {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				out[fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name())] = true
			}
		}
	}
	return out
}

// strictJSON is JSON in which a field that is not known is refused by its name:
// who writes by hand must not believe that a misspelt field was heeded.
type strictJSON struct{ name string }

func (c strictJSON) Name() string { return c.name }

func (c strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("cannot encode %T", message)
	}
	return protojson.Marshal(m)
}

func (c strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("cannot decode into %T", message)
	}
	if len(text) == 0 {
		return errors.New("there is no JSON object: send {} where nothing is to be said")
	}
	return protojson.Unmarshal(text, m)
}
