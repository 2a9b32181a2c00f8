package host

import "strings"

// expand replaces $(VAR) as Kubernetes does in a container's command: from
// env, unknown names left as they are, and $$ standing for a single $, so that
// $$(VAR) is the text $(VAR).
func expand(s string, env map[string]string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		text, used := expandAt(s[i+1:], env)
		out.WriteString(text)
		i += used
	}
	return out.String()
}

// expandAt reads what follows a $ and says how much of it was used.
func expandAt(rest string, env map[string]string) (string, int) {
	switch rest[0] {
	case '$':
		return "$", 1
	case '(':
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return "$(", 1
		}
		if value, ok := env[rest[1:end]]; ok {
			return value, end + 1
		}
		return "$" + rest[:end+1], end + 1
	default:
		return "$" + rest[:1], 1
	}
}

func expandAll(args []string, env map[string]string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = expand(a, env)
	}
	return out
}
