package apply_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/apply"
)

// packages have the tools that tests here need.
var packages = map[string]string{
	"mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount", "useradd": "passwd", "usermod": "passwd",
	"userdel":  "passwd",
	"groupadd": "passwd", "groupmod": "passwd", "groupdel": "passwd", "gpasswd": "passwd",
}

// needRoot is for tests that mount file systems or act on accounts. To root, nothing may be missing: nothing is left
// out in silence where everything is tested.
func needRoot(t *testing.T, tools ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this needs root: run the test as root")
	}
	for _, tool := range tools {
		found := slices.ContainsFunc([]string{"", "/usr/sbin/", "/sbin/"}, func(dir string) bool {
			_, err := exec.LookPath(dir + tool)
			return err == nil
		})
		if !found {
			t.Fatalf("there is no %s: install the package %s; make setup does", tool, packages[tool])
		}
	}
}

// mount mounts something at a directory until the test ends or end is called.
func mount(t *testing.T, dir string, how func() error) (end func()) {
	t.Helper()
	if err := how(); err != nil {
		t.Fatalf("mounting at %s: %v", dir, err)
	}
	mounted := true
	end = func() {
		if mounted {
			mounted = false
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
			}
		}
	}
	t.Cleanup(end)
	return end
}

// onTmpfs is a machine on a file system in memory, of a size in KiB.
func onTmpfs(t *testing.T, size int) (world, string) {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, func() error { return unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", size)) })
	furnish(t, dir)
	return rooted(dir), dir
}

// remount changes a mount.
func remount(t *testing.T, dir string, flags uintptr, data string) error {
	t.Helper()
	return unix.Mount("", dir, "", unix.MS_REMOUNT|flags, data)
}

// TestARealDiskThatFillsUpKeepsTheOldConfig has file systems with room for a little more of the update each time.
func TestARealDiskThatFillsUpKeepsTheOldConfig(t *testing.T) {
	needRoot(t)
	const most, page = 4096, 4
	var sum tally
	alone := 0
	for _, c := range crashCases(6) {
		tr := begin(t, c, func(t *testing.T) world { w, _ := onTmpfs(t, most); return w })
		for room, ended := 0, false; !ended; room += page {
			w, dir := onTmpfs(t, most)
			settleIn(t, w.open(t), c.from)
			var is unix.Statfs_t
			if err := unix.Statfs(dir, &is); err != nil {
				t.Fatal(err)
			}
			tr.world, tr.rejected = w, 0
			if err := remount(t, dir, 0, fmt.Sprintf("size=%dk", (int(is.Blocks-is.Bfree)*page)+room)); err != nil {
				t.Fatal(err)
			}
			done, err := tr.runner(w.open(t)).Run(t.Context(), tr.plan, tr.contents)
			ended = done.End == apply.New || done.End == apply.Rebooting
			if !ended && !errors.Is(errors.Join(err, done.Why), unix.ENOSPC) {
				t.Fatalf("with %d KiB of room: %+v, %v", room, done, err)
			}
			if done.End == apply.Old {
				alone++
			}
			if err := remount(t, dir, 0, fmt.Sprintf("size=%dk", most)); err != nil {
				t.Fatal(err)
			}
			tr.judge(t, fmt.Sprintf("%d KiB of room", room), tr.inPeace(t), &sum)
			sum.disturbed++
		}
	}
	t.Logf("%d disks, the last of which were large enough: %d machines ended in the old config, %d of them while the "+
		"disk was full, %d in the new", sum.disturbed, sum.olds, alone, sum.news)
	if alone*10 < sum.olds*9 {
		t.Errorf("of %d machines only %d went back while the disk was full", sum.olds, alone)
	}
}

// TestARealDiskThatBecomesReadOnlyKeepsTheOldConfig remounts it before the k-th system call, as soon as the kernel
// agrees.
func TestARealDiskThatBecomesReadOnlyKeepsTheOldConfig(t *testing.T) {
	needRoot(t)
	var sum tally
	for _, c := range crashCases(2) {
		dir := ""
		makeWorld := func(t *testing.T) world {
			var w world
			w, dir = onTmpfs(t, 4096)
			return w
		}
		tr := begin(t, c, makeWorld)
		for k := 0; ; k++ {
			if tr.tree(t) != tr.old {
				tr = begin(t, c, makeWorld)
			}
			n, frozen := 0, false
			tr.trap(func(string, string) error {
				if n++; n > k && !frozen {
					frozen = remount(t, dir, unix.MS_RDONLY, "") == nil // not while a file is open for writing
				}
				return nil
			})
			done, err := tr.runner(tr.open(t)).Run(t.Context(), tr.plan, tr.contents)
			tr.trap(nil)
			if ended := done.End == apply.New || done.End == apply.Rebooting; frozen && !ended &&
				!errors.Is(errors.Join(err, done.Why), unix.EROFS) {
				t.Fatalf("read-only at call %d: %+v, %v", k, done, err)
			}
			if err := remount(t, dir, 0, ""); err != nil {
				t.Fatal(err)
			}
			tr.judge(t, fmt.Sprintf("read-only at call %d", k), tr.inPeace(t), &sum)
			if !frozen {
				break
			}
			sum.disturbed++
		}
	}
	t.Logf("%d disks became read-only: %d machines ended in the old config, %d in the new", sum.disturbed, sum.olds,
		sum.news)
}
