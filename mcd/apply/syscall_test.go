package apply_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
)

// inKernel is what the kernel says from the k-th changing system call on; nil lets the call be made.
type inKernel struct {
	says string
	call func(n, k int, call string) error
	// stride is how many calls are between two tries.
	stride int
}

// needsRoom tells calls that take room on a disk.
func needsRoom(call string) bool {
	return slices.Contains([]string{"create", "write", "mkdir", "symlink", "setxattr"}, call)
}

var inKernels = []inKernel{
	{"killed", func(n, k int, _ string) error { return when(n >= k, hosttest.ErrCrashed) }, 1},
	{"ENOSPC", func(n, k int, call string) error { return when(n >= k && needsRoom(call), syscall.ENOSPC) }, 1},
	{"EROFS", func(n, k int, call string) error {
		return when(n >= k && !strings.Contains(call, "sync"), syscall.EROFS)
	}, 1},
	{"EIO", func(n, k int, _ string) error { return when(n >= k, syscall.EIO) }, 1},
	{"EIO, once", func(n, k int, _ string) error { return when(n == k, syscall.EIO) }, 1},
}

func when(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// TestInTheMiddleOfAStepTooItEndsInTheOldOrTheNewConfig disturbs the daemon between any two system calls that change
// something: between a file's creation, its contents, owner, mode and rename, between the links of one unit, in the
// midst of writing the journal and the store, and between two syncs.
func TestInTheMiddleOfAStepTooItEndsInTheOldOrTheNewConfig(t *testing.T) {
	for _, d := range inKernels {
		t.Run(d.says, func(t *testing.T) {
			var sum tally
			calls := map[string]int{}
			for _, c := range crashCases(2) {
				tr := begin(t, c, worlds["rooted"])
				for k := 0; ; k += d.stride {
					if tr.tree(t) != tr.old {
						tr = begin(t, c, worlds["rooted"])
					}
					n, at := 0, ""
					tr.trap(func(call, _ string) error {
						n++
						if n-1 == k {
							at = call
						}
						return d.call(n-1, k, call)
					})
					_, _ = tr.runner(tr.open(t)).Run(t.Context(), tr.plan, tr.contents)
					n, k2 := 0, rand.New(rand.NewPCG(uint64(k), 1)).IntN(150)
					tr.trap(func(call, _ string) error { n++; return d.call(n-1, k2, call) })
					_, _ = tr.runner(tr.open(t)).Recover(t.Context())
					tr.trap(nil)
					tr.judge(t, fmt.Sprintf("%s at call %d, %s", d.says, k, at), tr.inPeace(t), &sum)
					if at == "" {
						break
					}
					calls[at]++
					sum.disturbed++
				}
			}
			t.Logf("%s at %d system calls %v: %d ended in the old config, %d in the new", d.says, sum.disturbed, calls,
				sum.olds, sum.news)
		})
	}
}

// inPeace starts daemons until there is nothing to do.
func (tr *trial) inPeace(t *testing.T) apply.Applied {
	t.Helper()
	for range 4 {
		end, err := tr.runner(tr.open(t)).Recover(t.Context())
		if err != nil || end.End == apply.RollbackFailed {
			t.Fatalf("in peace: %+v, %v", end, err)
		}
		if end.End != apply.Rebooting {
			return end
		}
	}
	t.Fatal("it never came to rest")
	return apply.Applied{}
}

// The environment of a process that is this test's, and is killed.
const (
	victimDir  = "BUNSEN_TEST_VICTIM_DIR"
	victimCase = "BUNSEN_TEST_VICTIM_CASE"
	victimCall = "BUNSEN_TEST_VICTIM_CALL"
	// victimHeir is set for a process that finds what another left, and begins nothing.
	victimHeir = "BUNSEN_TEST_VICTIM_HEIR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim is a daemon that finishes what it finds, or else begins the update, and kills itself before a system call.
func victim(dir string) error {
	number, err := strconv.Atoi(os.Getenv(victimCase))
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(os.Getenv(victimCall))
	if err != nil {
		return err
	}
	h, root, err := linux.OpenSimulated(dir, func(string) {})
	if err != nil {
		return err
	}
	var calls atomic.Int64
	root.Trap(func(string, string) error {
		if calls.Add(1) > int64(last) {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	r := apply.Runner{Host: h}
	if end, err := r.Recover(context.Background()); err != nil || end.End != apply.Nothing ||
		os.Getenv(victimHeir) != "" {
		return err
	}
	c := crashCases(uint64(number) + 1)[number]
	w, err := wayBetween(h, c.from, c.to, c.actions...)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(context.Background(), h, w.Scope())
	if err != nil {
		return err
	}
	p, contents := w.Plan(observed, []byte(w.To))
	_, err = r.Run(context.Background(), p, contents)
	return err
}

// kill runs a victim; alive tells that it ended before it was to be killed.
func kill(t *testing.T, dir string, number, after int, env ...string) (alive bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), env...), victimDir+"="+dir, fmt.Sprintf("%s=%d", victimCase, number),
		fmt.Sprintf("%s=%d", victimCall, after))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if by, ok := exit.Sys().(syscall.WaitStatus); ok && by.Signaled() && by.Signal() == syscall.SIGKILL {
			return false
		}
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return true
}

// TestAProcessThatIsKilledLeavesTheOldOrTheNewConfig kills processes for real, and those that come after them.
func TestAProcessThatIsKilledLeavesTheOldOrTheNewConfig(t *testing.T) {
	var sum tally
	for number, c := range crashCases(2) {
		var dir string
		makeWorld := func(t *testing.T) world {
			dir = hosttest.TempDir(t)
			furnish(t, dir)
			return rooted(dir)
		}
		tr := begin(t, c, makeWorld)
		for k := number; ; k += 2 {
			if tr.tree(t) != tr.old {
				tr = begin(t, c, makeWorld)
			}
			alive := kill(t, dir, number, k)
			if !alive {
				kill(t, dir, number, k*3%70, victimHeir+"=1")
			}
			tr.judge(t, fmt.Sprintf("kill -9 after %d system calls", k), tr.inPeace(t), &sum)
			if alive {
				break
			}
			sum.disturbed++
		}
	}
	t.Logf("kill -9 of %d processes: %d machines ended in the old config, %d in the new", sum.disturbed, sum.olds,
		sum.news)
}
