package measure

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Cost is the time and the memory that a task used.
type Cost struct {
	// CPU is user and system time of the process, with garbage collection. Unlike the elapsed time, it depends little
	// on other load of the machine.
	CPU time.Duration
	// Wall is the elapsed time.
	Wall time.Duration
	// Allocations is the number of allocations.
	Allocations uint64
	// Mem is the number of allocated bytes. For another process, it is the maximum size of its memory.
	Mem uint64
}

// Plus adds two costs.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.CPU + d.CPU, c.Wall + d.Wall, c.Allocations + d.Allocations, c.Mem + d.Mem}
}

// Over returns the cost of one of n equal parts.
func (c Cost) Over(n int) Cost {
	return Cost{c.CPU / time.Duration(n), c.Wall / time.Duration(n), c.Allocations / uint64(n), c.Mem / uint64(n)}
}

// Charge returns the cost of do.
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

// cpuTime returns the CPU time of the process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Sample is the cost of one run, or of the run with the median CPU time of several.
type Sample struct {
	Cost
	// Parts are the costs of the parts of the run, if it has parts.
	Parts []Cost
	// Runs is the number of runs.
	Runs int

	// spent is the cost of the whole measurement, if Cost is a share of it.
	spent time.Duration
}

// Of runs parts one after the other and measures each of them. It first collects all earlier garbage.
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

// Many runs a function n times, if it is too short for one measurement, and returns the cost of one run.
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

// Process runs a command to its end and measures it. Exit codes in harmless are no errors. A command that prints
// nothing is an error, so that a failed program does not count as a fast one.
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
		s.Mem = uint64(u.Maxrss) << 10 // Linux reports KiB
	}
	return s, nil
}
