package identity

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

const lockEnv = "IDENTITY_TEST_LOCK_FOLDER"

// takeLockAndWait is the second process of the test below.
func takeLockAndWait() bool {
	dir := os.Getenv(lockEnv)
	if dir == "" {
		return false
	}
	a, err := OpenAuthority(dir, AuthorityOptions{})
	fmt.Println("opened:", err)
	if err == nil {
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Println(err, a.Close())
	}
	return true
}

func TestASecondProcessOnTheAuthoritysFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "opened: <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := OpenAuthority(dir, AuthorityOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened beside another process: %v", err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	a, err := OpenAuthority(dir, AuthorityOptions{Now: time.Now})
	if err != nil {
		t.Fatalf("not opened after the other process ended: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
