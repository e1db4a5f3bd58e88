package plane

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

// recordEnding is the end of a process record's file name, "<name>.pid". A record contains "<pid> <start time> <boot
// id>", because the kernel reuses process ids.
const recordEnding = ".pid"

// Running is a process that has a record and still runs.
type Running struct {
	// Name is the name under which the supervisor started the process.
	Name string
	// PID is the id of the process and of its process group.
	PID int
}

// FindRunning reads the records in a folder and returns each process that still runs, sorted by name.
func FindRunning(run string) ([]Running, error) {
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

// StopLeftovers ends processes of an earlier supervisor: with SIGTERM, and after the grace with SIGKILL to the whole
// group. StopLeftovers removes all records.
func StopLeftovers(run string, grace time.Duration) ([]Running, error) {
	left, err := FindRunning(run)
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
		return left, fmt.Errorf("ending %s (pid %d), left over from an earlier run: it ignores SIGKILL",
			remaining[0].Name, remaining[0].PID)
	}
	records, _ := filepath.Glob(filepath.Join(run, "*"+recordEnding))
	for _, path := range records {
		if err := os.Remove(path); err != nil {
			return left, fmt.Errorf("removing a process record: %w", err)
		}
	}
	return left, nil
}

// killGrace is the time that the kernel may need to end a process after SIGKILL.
const killGrace = 5 * time.Second

// waitGone returns the processes that still run after a time. waitGone polls, because these processes are not children
// of this process.
func waitGone(run string, atMost time.Duration) []Running {
	for deadline := time.Now().Add(atMost); ; time.Sleep(20 * time.Millisecond) {
		left, err := FindRunning(run)
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

func writeRecord(path string, pid int) error {
	now, err := stat(pid)
	if err != nil {
		// The process has ended already. The caller waits for it and reports its end.
		return nil
	}
	line := fmt.Sprintf("%d %s %s\n", pid, now.started, bootID())
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		return fmt.Errorf("writing the process record: %w", err)
	}
	return nil
}

// alive returns the process id of a record and reports whether that process still runs.
func alive(record string) (int, bool) {
	f := strings.Fields(record)
	if len(f) != 3 || f[2] != bootID() {
		return 0, false
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil || pid <= 1 {
		return 0, false
	}
	now, err := stat(pid)
	return pid, err == nil && now.started == f[1] && !now.ended()
}

// processStat is what the kernel says of a process.
type processStat struct {
	started string // The start time in clock ticks since boot.
	state   string // One letter, such as "S" for sleeping or "Z" for a zombie.
	threads string // The number of threads that the kernel still has of it.
}

// ended reports whether nothing of the process runs. The kernel lists a zombie until its parent calls wait. A process
// that is being killed is a zombie as soon as its first thread has ended, and until the last one has ended it still
// holds its ports and files.
func (s processStat) ended() bool { return s.state == "X" || s.state == "Z" && s.threads == "1" }

func stat(pid int) (processStat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processStat{}, err
	}
	// The process name, which is in brackets, may contain any character, also spaces and brackets.
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	const stateField, threadsField, startField = 0, 17, 19
	if len(f) <= startField {
		return processStat{}, fmt.Errorf("reading /proc/%d/stat: %d fields", pid, len(f))
	}
	return processStat{started: f[startField], state: f[stateField], threads: f[threadsField]}, nil
}

func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}
