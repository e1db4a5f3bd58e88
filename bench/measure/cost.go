package measure

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Cost is what something took.
type Cost struct {
	// CPU is user and system time of the process, garbage collection included: unlike the wall's clock, it hardly depends on
	// what else the machine does.
	CPU time.Duration
	// Wall is the time that passed.
	Wall time.Duration
	// Allocations is how many were made.
	Allocations uint64
	// Mem is the bytes allocated; of another process, the most that it held at once.
	Mem uint64
}

// Plus adds two costs.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.CPU + d.CPU, c.Wall + d.Wall, c.Allocations + d.Allocations, c.Mem + d.Mem}
}

// Over is the share of one of n equal parts.
func (c Cost) Over(n int) Cost {
	return Cost{c.CPU / time.Duration(n), c.Wall / time.Duration(n), c.Allocations / uint64(n), c.Mem / uint64(n)}
}

// Charge measures what do costs.
func Charge(do func() error) (Cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, wall := cpuTime(), time.Now()
	err := do()
	c := Cost{CPU: cpuTime() - cpu, Wall: time.Since(wall)}
	runtime.ReadMemStats(&after)
	c.Allocations, c.Mem = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return c, err
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Sample is what one run took, or the run of median CPU of several.
type Sample struct {
	Cost
	// Parts are the costs of the parts of it, where it has such.
	Parts []Cost
	// Runs is how many there were.
	Runs int

	// spent is what the whole of it took, where Cost is a share of that.
	spent time.Duration
}

// Of runs parts one after the other, each measured, beginning with all garbage of what went before collected.
func Of(parts ...func() error) (Sample, error) {
	runtime.GC()
	s := Sample{Runs: 1}
	for _, part := range parts {
		c, err := Charge(part)
		if err != nil {
			return Sample{}, err
		}
		s.Parts = append(s.Parts, c)
		s.Cost = s.Plus(c)
	}
	return s, nil
}

// Many runs something too short for one measurement n times, and returns the cost of one time.
func Many(n int, do func() error) (Sample, error) {
	s, err := Of(func() error {
		for range n {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
	s.spent, s.Cost, s.Parts = s.CPU, s.Over(n), nil
	return s, err
}

// Process runs a command to its end and measures it. Exit codes in harmless are no errors, printing nothing is one: a
// program that fails must not pass for a fast one.
func Process(cmd *exec.Cmd, harmless ...int) (Sample, error) {
	begun := time.Now()
	out, err := cmd.Output()
	wall := time.Since(begun)
	if cmd.ProcessState == nil {
		return Sample{}, fmt.Errorf("running %s: %w", cmd, err)
	}
	for _, code := range harmless {
		if cmd.ProcessState.ExitCode() == code {
			err = nil
		}
	}
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			return Sample{}, fmt.Errorf("running %s: %w: %s%s", cmd, err, exit.Stderr, out)
		}
		return Sample{}, fmt.Errorf("running %s: %w", cmd, err)
	}
	if len(out) == 0 {
		return Sample{}, fmt.Errorf("running %s: it printed nothing", cmd)
	}
	s := Sample{Cost: Cost{CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), Wall: wall}, Runs: 1}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.Mem = uint64(u.Maxrss) << 10 // Linux says kibibytes
	}
	return s, nil
}
