package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// plain shows the control characters of a text instead of obeying them: what a
// program wrote must not move the cursor, or say other things than it says. New
// lines and tabs stay.
func plain(text string) string {
	if strings.IndexFunc(text, hostile) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case !hostile(r):
			out.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// hostile are the control characters, and the marks that turn the direction of
// what follows.
func hostile(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// colored is plain, but for colours.
func colored(text string) string {
	colors := regexp.MustCompile("\x1b\\[[0-9;]*m")
	at := colors.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return plain(text)
	}
	var out strings.Builder
	from := 0
	for _, span := range at {
		out.WriteString(plain(text[from:span[0]]) + text[span[0]:span[1]])
		from = span[1]
	}
	return out.String() + plain(text[from:]) + "\x1b[0m"
}

// plainFields makes every text in a message plain, in place.
func plainFields(m proto.Message) { plainReflected(m.ProtoReflect()) }

func plainReflected(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				if p, changed := plainValue(f, v.List().Get(i)); changed {
					v.List().Set(i, p)
				}
			}
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, x protoreflect.Value) bool {
				if p, changed := plainValue(f.MapValue(), x); changed {
					v.Map().Set(k, p)
				}
				return true
			})
		default:
			if p, changed := plainValue(f, v); changed {
				m.Set(f, p)
			}
		}
		return true
	})
}

// plainValue is the value of a text; of a message the fields are made plain.
func plainValue(f protoreflect.FieldDescriptor, v protoreflect.Value) (protoreflect.Value, bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(plain(v.String())), true
	case protoreflect.MessageKind:
		plainReflected(v.Message())
	}
	return v, false
}
