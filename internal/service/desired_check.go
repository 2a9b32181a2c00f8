package service

import (
	"net/url"
	"path"
	"strings"
	"time"
)

// Bounds of what a desired document may ask for.
const (
	MaxInstances   = 1000
	maxConcurrency = 100_000
	maxEnvBytes    = 1 << 20   // all names and values together
	maxWordBytes   = 120 << 10 // one argument or one variable: Linux takes 128 KiB
	maxDuration    = 24 * time.Hour
	minReady       = time.Second
	maxHostNames   = 100
)

// Check says why the document cannot be accepted, or nil.
func (d Desired) Check() error {
	if err := CheckServiceName(d.Service); err != nil {
		return err
	}
	if d.Deleted {
		return nil
	}
	// A service without instances would need routes that lead nowhere, by which
	// callers are told at once; until there are, nobody waits for nothing.
	if d.Instances < 1 || d.Instances > MaxInstances {
		return refuse("a service runs at least one instance: to stop it, delete it by: fairlead delete "+d.Service, "%d instances cannot be run: give a number from 1 to %d", d.Instances, MaxInstances)
	}
	if err := d.checkHostNames(); err != nil {
		return err
	}
	if err := d.checkTraffic(); err != nil {
		return err
	}
	return d.Template.Check()
}

func (d Desired) checkHostNames() error {
	if len(d.HostNames) > maxHostNames {
		return refuse("", "%d host names are too many: at most %d lead to one service", len(d.HostNames), maxHostNames)
	}
	for _, h := range d.HostNames {
		if _, err := NormalizeHostName(d.Service, h); err != nil {
			return err
		}
	}
	return nil
}

func (d Desired) checkTraffic() error {
	if len(d.Traffic) == 0 {
		return nil
	}
	sum, tags := 0, map[string]bool{} // :: tag → taken
	for _, t := range d.Traffic {
		if t.Percent < 0 || t.Percent > 100 {
			return refuse("", "%d percent of the traffic cannot be sent: give 0 to 100", t.Percent)
		}
		sum += t.Percent
		if t.Tag == "" {
			continue
		}
		if err := CheckTag(d.Service, t.Tag); err != nil {
			return err
		}
		if tags[t.Tag] {
			return refuse("", "tag %q is given to two revisions", t.Tag)
		}
		tags[t.Tag] = true
	}
	if sum != 100 {
		return refuse("", "the traffic adds up to %d percent, not 100", sum)
	}
	return nil
}

// Check says why the template cannot be run, or nil.
func (t Template) Check() error {
	for _, check := range []func() error{t.checkCommand, t.checkEnv, t.checkPlace, t.checkNumbers, t.checkHandover} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (t Template) checkCommand() error {
	const hint = "give the program and its arguments after --, e.g. fairlead deploy hello -- python3 -m http.server '$(PORT)'"
	if len(t.Command) == 0 || t.Command[0] == "" {
		return refuse(hint, "there is no command to run")
	}
	for _, w := range t.Command {
		if strings.ContainsRune(w, 0) {
			return refuse("", "the command contains a zero byte")
		}
		if len(w) > maxWordBytes {
			return refuse("", "an argument of the command has %d bytes, at most %d are taken", len(w), maxWordBytes)
		}
	}
	if t.Artifact != "" {
		return CheckDigest(t.Artifact)
	}
	if c := t.Command[0]; strings.Contains(c, "/") && !path.IsAbs(c) {
		return refuse("deploy it by the command line, which uploads the file, or give an absolute path on the hosts",
			"command %q is a relative path, and no artifact was uploaded for it", c)
	}
	return nil
}

// CheckDigest says why s is not "sha256:" and 64 hex digits, or nil.
func CheckDigest(s string) error {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == "" {
		return nil
	}
	return refuse(`give "sha256:" and 64 hex digits in lower case`, "%q is not the digest of an artifact", s)
}

func (t Template) checkEnv() error {
	total := 0
	for k, v := range t.Env {
		if err := CheckEnvName(k); err != nil {
			return err
		}
		if strings.ContainsRune(v, 0) {
			return refuse("", "the value of environment variable %s contains a zero byte", k)
		}
		if len(k)+len(v) > maxWordBytes {
			return refuse("put it into a file instead", "environment variable %s has %d bytes, at most %d are taken", k, len(v), maxWordBytes)
		}
		total += len(k) + len(v) + 2
	}
	if total > maxEnvBytes {
		return refuse("", "the environment has %d bytes, at most %d are taken", total, maxEnvBytes)
	}
	return nil
}

// CheckEnvName says why a variable of that name cannot be declared, or nil.
func CheckEnvName(name string) error {
	const hint = "use letters, digits and underscores, not beginning with a digit"
	if name == "" {
		return refuse(hint, "an environment variable needs a name")
	}
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return refuse(hint, "%q is not the name of an environment variable", name)
		}
	}
	if name == "PORT" || strings.HasPrefix(name, "FAIRLEAD_") {
		return refuse("use another name; the port to listen on is in $PORT, and $(PORT) in arguments", "environment variable %s is set by the host", name)
	}
	return nil
}

// isPath reports whether a request can be made for p.
func isPath(p string) bool {
	_, err := url.ParseRequestURI(p)
	return err == nil && !strings.ContainsAny(p, " #\t\r\n")
}

func (t Template) checkPlace() error {
	if t.Dir != "" && (!path.IsAbs(t.Dir) || strings.ContainsRune(t.Dir, 0)) {
		return refuse("give its absolute path", "working directory %q is not an absolute path", t.Dir)
	}
	if p := t.ReadyPath; p != "" && (p[0] != '/' || !isPath(p)) {
		return refuse("give a path that begins with a slash, e.g. /healthz", "ready path %q is not a path", p)
	}
	if u := t.User; u != "" && !isUser(u) {
		return refuse("give a user's name or number", "%q is not a user", u)
	}
	return nil
}

func isUser(u string) bool {
	return len(u) <= 32 && u[0] != '-' && strings.Trim(u, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

func (t Template) checkNumbers() error {
	if t.Concurrency < 0 || t.Concurrency > maxConcurrency {
		return refuse("", "concurrency %d is not possible: give 1 to %d, or 0 for the default", t.Concurrency, maxConcurrency)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"request timeout", t.RequestTimeout}, {"drain time", t.Drain}, {"ready timeout", t.ReadyTimeout}} {
		if d.value < 0 || d.value > maxDuration {
			return refuse("", "%s %s is not possible: give up to %s, or 0 for the default", d.name, d.value, maxDuration)
		}
	}
	if t.ReadyTimeout > 0 && t.ReadyTimeout < minReady {
		return refuse("", "ready timeout %s is too short: give at least %s", t.ReadyTimeout, minReady)
	}
	return nil
}

// checkHandover says why revisions cannot follow each other so, or nil.
func (t Template) checkHandover() error {
	if t.Handover != "" && t.Handover != HandoverExclusive {
		return refuse("say "+HandoverExclusive+" for a service that cannot bear two revisions at once, or nothing", "handover %q is not known", t.Handover)
	}
	if t.Group != "" && !isLabel(t.Group) {
		return refuse("use lower-case letters, digits and single dashes, e.g. workers", "request group %q is not a DNS label", t.Group)
	}
	return nil
}
