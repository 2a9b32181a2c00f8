package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
)

// onTerminal is what a command line that is done writes to a terminal.
func (p *plane) onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	code, text := p.atTerminal(t, args...)
	if code != ExitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	return text
}

func (p *plane) atTerminal(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan string)
	go func() {
		text, _ := io.ReadAll(ptmx) // a terminal ends with an error
		wrote <- string(text)
	}()
	code = Run(context.Background(), Env{
		Args: append([]string{"--data", p.data}, args...), Stdout: tty, Stderr: tty, Getenv: func(string) string { return "" }, Roles: noRoles{},
	})
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	return code, strings.ReplaceAll(<-wrote, "\r\n", "\n")
}

func TestADrillIsNotBegunAtATerminalWhereNobodySaysYes(t *testing.T) {
	nobody, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	was := os.Stdin
	os.Stdin = nobody
	defer func() { os.Stdin = was }()
	p, drills := newPlaneFor(t), &drillsAtHand{}
	p.api.Drills = drills
	code, text := p.atTerminal(t, "drill", "control-plane")
	if code != ExitRefused || !strings.Contains(text, "Begin? Type yes: ") || !strings.Contains(text, "the drill was not begun") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if !strings.Contains(text, "gateway/g1 holds no view") {
		t.Errorf("who would not survive is not said before: %s", text)
	}
	if drills.begun {
		t.Error("a drill was begun")
	}
}

// drillsAtHand may begin, and remember that they did.
type drillsAtHand struct {
	httpapi.Drills
	begun bool
}

func (*drillsAtHand) Prepare(time.Duration) (int, []string, error) {
	return 3, []string{"gateway/g1 holds no view"}, nil
}

func (d *drillsAtHand) Start(context.Context, time.Duration) error {
	d.begun = true
	return nil
}

func TestWhatAProgramWroteDoesNotSteerTheTerminal(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	if code, _, stderr := p.run("deploy", "hello", "--", "python3"); code != ExitDone {
		t.Fatal(stderr)
	}
	line := "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m \u009b1A\rover"
	p.must(t, "wrote", "01ABC", line)
	got := p.onTerminal(t, "logs", "hello", "--instance", "01ABC")
	if want := `\x1b[2J\x1b]0;title\x07` + "\x1b[31mred\x1b[0m" + ` \u009b1A\x0dover` + "\x1b[0m\n"; got != want {
		t.Errorf("a terminal is written %q, not %q", got, want)
	}
	if _, piped, _ := p.run("logs", "hello", "--instance", "01ABC"); piped != line+"\n" {
		t.Errorf("a pipe is written %q, not what the program wrote", piped)
	}
}

func TestATextShowsItsControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"plain, with ümlauts\tand\nlines": "plain, with ümlauts\tand\nlines",
		"\x1b[31mred\x00\x7f":             `\x1b[31mred\x00\x7f`,
		"\u202egnp.exe":                   `\u202egnp.exe`,
		"not \xff UTF-8 \x1b":             "not \ufffd UTF-8 " + `\x1b`,
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}
