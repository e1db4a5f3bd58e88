package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the CPU time and the memory of a running process so far.
type Usage struct {
	// CPU is user and system time of all its threads, in hundredths of a second.
	CPU time.Duration
	// Held is the current memory of the process. Peak is the maximum since its start or since Forget, in bytes.
	Held, Peak uint64
}

// UsageOf reads the usage of a process from Linux. It returns an error if the process has ended, or on another system.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, fmt.Errorf("measuring a process: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, fmt.Errorf("measuring a process: %s/stat says %q", dir, stat)
	}
	for _, field := range fields[11:13] { // utime, stime in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("measuring a process: %w", err)
		}
		u.CPU += time.Duration(n) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, fmt.Errorf("measuring a process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*uint64{"VmRSS": &u.Held, "VmHWM": &u.Peak}[name]
		if into == nil {
			continue
		}
		if _, err := fmt.Sscan(value, into); err != nil {
			return u, fmt.Errorf("measuring a process: %w", err)
		}
		*into <<= 10 // Linux reports KiB
	}
	return u, nil
}

// Forget resets the peak of a process to its current memory.
func Forget(pid int) error {
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("measuring a process: %w", err)
	}
	return nil
}
