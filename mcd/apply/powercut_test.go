package apply_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// blockDevice is a file that is mounted as a disk. What is in the file has reached the disk; the rest is in the memory
// of whoever mounted it, and a power cut loses it.
type blockDevice struct {
	dir   string
	image string
}

// careless makes ext4 write names long before the contents that they stand for.
const careless = "loop,data=writeback,noauto_da_alloc,noatime"

func newBlockDevice(t *testing.T) *blockDevice {
	t.Helper()
	b := &blockDevice{dir: t.TempDir(), image: filepath.Join(hosttest.TempDir(t), "disk")}
	if err := os.WriteFile(b.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(b.image, 12<<20); err != nil {
		t.Fatal(err)
	}
	b.run(t, "mkfs.ext4", "-q", "-F", "-b", "1024", "-J", "size=2", "-N", "2048", b.image)
	return b
}

func (b *blockDevice) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// mounted runs something on the disk.
func (b *blockDevice) mounted(t *testing.T, do func(world)) {
	t.Helper()
	b.run(t, "mount", "-o", careless, b.image, b.dir)
	failed := true
	defer func() {
		if failed { // t.Fatal is on its way
			_ = exec.Command("umount", "--lazy", b.dir).Run()
		}
	}()
	w := rooted(b.dir)
	do(w)
	w.close()
	failed = false
	b.run(t, "umount", b.dir)
}

// copyOf is another disk with what has reached this one, at one moment: the file system may be writing just now.
func (b *blockDevice) copyOf(t *testing.T, name string) *blockDevice {
	t.Helper()
	// a name of its own: the kernel may still hold another
	c := &blockDevice{dir: b.dir, image: filepath.Join(hosttest.TempDir(t), name)}
	var was []byte
	for {
		is, err := os.ReadFile(b.image)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(was, is) {
			break
		}
		was = is
	}
	if err := os.WriteFile(c.image, was, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// cutAt is a trap: the power is cut before the k-th system call, and the disk is left as it is then. Some time before,
// the file system writes the names that it has.
func (b *blockDevice) cutAt(t *testing.T, k int, name string,
	r *rand.Rand,
) (trap func(call, path string) error, after func() *blockDevice) {
	n, commit := 0, r.IntN(k+1)
	var left *blockDevice
	trap = func(string, string) error {
		if n++; n-1 == commit {
			f, err := os.Create(filepath.Join(b.dir, "lost+found", "bystander"))
			if err != nil {
				return err
			}
			defer f.Close()
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if n <= k {
			return nil
		}
		if left == nil {
			left = b.copyOf(t, name)
		}
		return hosttest.ErrCrashed
	}
	return trap, func() *blockDevice { return left }
}

// TestARealPowerCutEndsInTheOldOrTheNewConfig keeps what has reached a block device before the k-th system call, and
// has the file system and then the daemon find their way out, with a second power cut on that way.
func TestARealPowerCutEndsInTheOldOrTheNewConfig(t *testing.T) {
	needRoot(t, "mkfs.ext4", "mount", "umount")
	var sum tally
	for _, c := range crashCases(2) {
		first := newBlockDevice(t)
		tr := &trial{}
		first.mounted(t, func(w world) {
			furnish(t, first.dir)
			settleIn(t, w.open(t), c.from)
			tr.old = w.tree(t)
		})
		first.copyOf(t, "shall").mounted(t, func(w world) {
			h := w.open(t)
			tr.world, tr.boots = w, 0
			tr.plan, tr.contents = planOn(t, h, way(t, h, c.from, c.to, c.actions...))
			if _, err := tr.runner(h).Run(t.Context(), tr.plan, tr.contents); err != nil {
				t.Fatal(err)
			}
			tr.inPeace(t)
			tr.shall = tr.tree(t)
		})
		for k := 0; ; k += 5 {
			r := rand.New(rand.NewPCG(uint64(k), 41))
			left := first.copyOf(t, "one").cutDuring(t, tr, k, "two", r, false)
			reached := left != nil
			if !reached {
				break
			}
			if again := left.cutDuring(t, tr, r.IntN(120), "three", r, true); again != nil {
				left = again
			}
			left.mounted(t, func(w world) {
				tr.world = w
				reboots(t, w)
				tr.judge(t, fmt.Sprintf("power cut at system call %d", k), tr.inPeace(t), &sum)
			})
			sum.disturbed++
		}
	}
	t.Logf("%d power cuts of ext4 and as many on the way out: %d machines ended in the old config, %d in the new",
		sum.disturbed, sum.olds, sum.news)
}

// cutDuring lets a daemon run on a disk until the power is cut; nil when it is not.
func (b *blockDevice) cutDuring(t *testing.T, tr *trial, k int, name string, r *rand.Rand, recovers bool) *blockDevice {
	t.Helper()
	trap, left := b.cutAt(t, k, name, r)
	b.mounted(t, func(w world) {
		tr.world = w
		if recovers {
			reboots(t, w)
		}
		w.trap(trap)
		run := tr.runner(w.open(t))
		if recovers {
			_, _ = run.Recover(t.Context())
		} else {
			_, _ = run.Run(t.Context(), tr.plan, tr.contents)
		}
		w.trap(nil)
	})
	return left()
}

// reboots lets a machine boot that was cut.
func reboots(t *testing.T, w world) {
	t.Helper()
	if err := w.open(t).Power.Reboot(t.Context(), "power is back"); err != nil {
		t.Fatal(err)
	}
}
