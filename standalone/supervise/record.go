package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// recordEnding ends the names of process records: "<name>.pid", which say
// "<pid> <start time> <boot id>". The pid alone is not enough: the kernel gives
// it to somebody else later.
const recordEnding = ".pid"

// Running is a process that a record names and that still runs.
type Running struct {
	// Name is the name that it was started under.
	Name string
	// PID is its process id and that of its group.
	PID int
}

// Find reads the records in a folder and returns those whose process still runs,
// by name.
func Find(run string) ([]Running, error) {
	records, err := filepath.Glob(filepath.Join(run, "*"+recordEnding))
	if err != nil {
		return nil, fmt.Errorf("reading process records: %w", err)
	}
	var out []Running
	for _, path := range records {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading process records: %w", err)
		}
		if pid, ok := alive(string(raw)); ok {
			out = append(out, Running{Name: strings.TrimSuffix(filepath.Base(path), recordEnding), PID: pid})
		}
	}
	return out, nil
}

// Sweep ends what an earlier supervisor left running: SIGTERM, and after the
// grace SIGKILL to its whole group. Records of the dead are removed.
func Sweep(run string, grace time.Duration) ([]Running, error) {
	left, err := Find(run)
	if err != nil {
		return nil, err
	}
	for _, p := range left {
		_ = syscall.Kill(p.PID, syscall.SIGTERM)
	}
	remaining := waitGone(run, grace)
	for _, p := range remaining {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
	}
	if remaining = waitGone(run, killGrace); len(remaining) > 0 {
		return left, fmt.Errorf("ending %s (pid %d), left over from an earlier run: it does not die by SIGKILL", remaining[0].Name, remaining[0].PID)
	}
	records, _ := filepath.Glob(filepath.Join(run, "*"+recordEnding))
	for _, path := range records {
		if err := os.Remove(path); err != nil {
			return left, fmt.Errorf("removing a process record: %w", err)
		}
	}
	return left, nil
}

// killGrace is how long the kernel may take to end a process that got SIGKILL.
const killGrace = 5 * time.Second

// waitGone returns what still runs when the time is over. These processes are
// not ours to wait for, so it looks again and again.
func waitGone(run string, atMost time.Duration) []Running {
	for deadline := time.Now().Add(atMost); ; time.Sleep(20 * time.Millisecond) {
		left, err := Find(run)
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

func writeRecord(path string, pid int) error {
	started, _, err := stat(pid)
	if err != nil {
		// It is dead already; its end is reported by whoever waits for it.
		return nil
	}
	line := fmt.Sprintf("%d %s %s\n", pid, started, bootID())
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		return fmt.Errorf("writing the process record: %w", err)
	}
	return nil
}

// alive says whether the very process of a record still runs.
func alive(record string) (int, bool) {
	f := strings.Fields(record)
	if len(f) != 3 || f[2] != bootID() {
		return 0, false
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil || pid <= 1 {
		return 0, false
	}
	started, state, err := stat(pid)
	// A zombie has ended: where nobody reaps it, it stays listed.
	return pid, err == nil && started == f[1] && state != "Z" && state != "X"
}

// stat returns a process's start time in clock ticks since boot, and its state.
func stat(pid int) (started, state string, err error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", "", err
	}
	// The name in brackets may hold anything, spaces and brackets too.
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	const stateField, startField = 0, 19
	if len(f) <= startField {
		return "", "", fmt.Errorf("reading /proc/%d/stat: %d fields", pid, len(f))
	}
	return f[startField], f[stateField], nil
}

func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}
