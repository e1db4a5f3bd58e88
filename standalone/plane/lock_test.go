package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T) Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestASecondHolderIsToldWhoHoldsTheDirectory(t *testing.T) {
	d := open(t)
	first, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()

	_, err = d.Lock()
	var held *InUseError
	if !errors.As(err, &held) {
		t.Fatalf("second lock: got %v, want a InUseError", err)
	}
	if want := fmt.Sprint(os.Getpid()); held.PID != want {
		t.Errorf("holder is %q, want %q", held.PID, want)
	}
	for _, want := range []string{string(d), "process " + held.PID, "--data"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
}

func TestTheHolderIsKnownWhileItHolds(t *testing.T) {
	d := open(t)
	if got := d.Holder(); got != 0 {
		t.Errorf("before: %d", got)
	}
	l, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Holder(); got != os.Getpid() {
		t.Errorf("while held: %d, want %d", got, os.Getpid())
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if got := d.Holder(); got != 0 {
		t.Errorf("after: %d", got)
	}
}

func TestAReleasedDirectoryCanBeLockedAgain(t *testing.T) {
	d := open(t)
	for range 2 {
		l, err := d.Lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALockFileOfADeadProcessIsNoObstacle(t *testing.T) {
	d := open(t)
	if err := os.WriteFile(filepath.Join(string(d), "lock"), []byte("999999999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	got, err := os.ReadFile(filepath.Join(string(d), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d\n", os.Getpid()); string(got) != want {
		t.Errorf("lock file says %q, want %q", got, want)
	}
}

func TestOnlyTheOwnerReadsTheDirectory(t *testing.T) {
	info, err := os.Stat(string(open(t)))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, want 0700", info.Mode().Perm())
	}
}
