package plane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leftOver starts an actor as an earlier supervisor would have, without the bond
// that makes it die with its parent.
func leftOver(t *testing.T, st *stage, name string) *actor {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+name, stageVar+"="+st.addr)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := st.next()
	// Waited for only at the end: until then it stays a zombie, as under an init that reaps nobody.
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return a
}

func TestALeftOverProcessIsEndedByTheNextStart(t *testing.T) {
	for name, want := range map[string]string{"polite": "polite term", "stubborn": "stubborn term", headless: headless + " term"} {
		t.Run(name, func(t *testing.T) {
			st, run := newStage(t), t.TempDir()
			a := leftOver(t, st, name)
			if err := writeRecord(filepath.Join(run, name+recordEnding), a.pid); err != nil {
				t.Fatal(err)
			}
			left, err := StopLeftovers(run, 100*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 || left[0] != (Running{Name: name, PID: a.pid}) {
				t.Errorf("found %v", left)
			}
			if got := a.lastWords(); got != want {
				t.Errorf("last words are %q, want %q", got, want)
			}
			if again, err := FindRunning(run); err != nil || len(again) != 0 {
				t.Errorf("still found: %v, %v", again, err)
			}
		})
	}
}

func TestAProcessThatOnlyHasTheSamePIDIsLeftAlone(t *testing.T) {
	st := newStage(t)
	a := leftOver(t, st, "stranger")
	now, err := stat(a.pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, record := range map[string]string{
		"another start time":   fmt.Sprintf("%d %s1 %s\n", a.pid, now.started, bootID()),
		"another boot":         fmt.Sprintf("%d %s %s\n", a.pid, now.started, "00000000-0000-0000-0000-000000000000"),
		"a record cut off":     fmt.Sprintf("%d", a.pid),
		"a record of init":     "1 0 " + bootID(),
		"a record of all":      "-1 0 " + bootID(),
		"a record of nonsense": "what is this",
	} {
		t.Run(name, func(t *testing.T) {
			run := t.TempDir()
			if err := os.WriteFile(filepath.Join(run, "x"+recordEnding), []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
			left, err := StopLeftovers(run, time.Second)
			if err != nil || len(left) != 0 {
				t.Errorf("found %v, %v; want nothing", left, err)
			}
		})
	}
	a.tell("die")
	if got := a.lastWords(); got != "" {
		t.Errorf("the stranger was signalled: %q", got)
	}
}

func TestAStartSaysInTheLogWhatIsRunAndSetsALongLogAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	write := func() {
		f, err := openLog(path, []string{"etcd", "--data-dir", "x"})
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write()
	write()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "etcd --data-dir x\n"); n != 2 {
		t.Errorf("%d starts in the log, want 2:\n%s", n, raw)
	}
	if err := os.Truncate(path, maxLog+1); err != nil {
		t.Fatal(err)
	}
	write()
	aside, err := os.Stat(path + ".1")
	if err != nil || aside.Size() != maxLog+1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
	if now, err := os.Stat(path); err != nil || now.Size() > 1000 {
		t.Errorf("the new log: %v, %v", now, err)
	}
}

func TestTailIsTheLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	long := strings.Repeat("filler line\n", 10_000)
	for name, tc := range map[string]struct{ content, want string }{
		"a short log":  {"one\n", "one"},
		"a long log":   {long + "one\ntwo\n", "one\ntwo"},
		"an empty log": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := TailLog(path, 2); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := TailLog(path+".missing", 2); got != "" {
		t.Errorf("a missing log gives %q", got)
	}
}
