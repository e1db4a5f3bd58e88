package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

func TestTheRoomThatAKernelNeeds(t *testing.T) {
	one := kernel{"vmlinuz-1": 10, "initramfs-1.img": 90, ".vmlinuz-1.hmac": 1}
	two := kernel{"vmlinuz-2": 10, "initramfs-2.img": 100}
	for says, c := range map[string]struct {
		others []kernel
		next   kernel
		want   int64
	}{
		"the kernel that runs":                            {next: kernel{"vmlinuz-1": 10, "initramfs-1.img": 90}},
		"the kernel of the OS before":                     {others: []kernel{two}, next: two},
		"another kernel":                                  {next: two, want: 110},
		"the same with another initramfs":                 {next: kernel{"vmlinuz-1": 10, "initramfs-1.img": 91}, want: 101},
		"another kernel, for which OSTree removes others": {others: []kernel{{"a": 50}, {"b": 20}}, next: two, want: 40},
		"another kernel, for which OSTree removes enough": {others: []kernel{{"a": 500}}, next: two},
		"a kernel that was not found":                     {others: []kernel{two}},
	} {
		if got := (bootKernels{one, c.others}).room(c.next); got != c.want {
			t.Errorf("%s: %d, want %d", says, got, c.want)
		}
	}
}

// TestASmallBoot has a file system of its own for /boot, with a kernel that runs and the kernel of the OS before.
func TestASmallBoot(t *testing.T) {
	needRoot(t)
	image := []host.Step{{Verb: host.SetImage}, {Verb: host.SetKargs}}
	kargs := []host.Step{{Verb: host.SetKargs}}
	const kib = 1 << 10
	for says, c := range map[string]struct {
		size   string // of /boot; "" if it is no file system of its own
		others int    // bytes of the other kernel
		next   int    // bytes of the staged kernel
		steps  []host.Step
		want   host.BootSpace
		full   bool // the staged kernel does not fit
	}{
		"enough for all": {
			"1m", 100 * kib, 300 * kib, image,
			host.BootSpace{At: "/boot", Free: 724 * kib, Least: 64 * kib, Likely: 100 * kib},
			false,
		},
		"enough when OSTree has removed the other kernel": {
			"500k", 200 * kib, 400 * kib, image, host.BootSpace{At: "/boot", Free: 100 * kib, Least: 64 * kib}, true,
		},
		"too little for a large one": {
			"400k", 100 * kib, 210 * kib, image,
			host.BootSpace{At: "/boot", Free: 100 * kib, Least: 64 * kib, Likely: 100 * kib},
			true,
		},
		"too little for the boot loader's entries": {
			"204k", 0, 200 * kib, kargs, host.BootSpace{At: "/boot", Free: 4 * kib, Least: 64 * kib}, false,
		},
		"no steps that stage":                 {"1m", 0, 1, []host.Step{{Verb: host.Reboot}}, host.BootSpace{}, false},
		"a directory of the root file system": {"", 0, 1 << 40, image, host.BootSpace{}, false},
	} {
		t.Run(says, func(t *testing.T) {
			dir := t.TempDir()
			boot := filepath.Join(dir, "boot")
			if err := os.Mkdir(boot, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.size != "" {
				if err := unix.Mount("none", boot, "tmpfs", 0, "size="+c.size); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Unmount(boot, unix.MNT_DETACH) }) //nolint:errcheck // a directory of the test
			}
			put := func(name string, size int) {
				at := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o600),
					os.Truncate(at, int64(size))); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "boot/") {
					if err := os.WriteFile(at, make([]byte, size), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			put("boot/ostree/os-aaaa/vmlinuz-1", 200*kib)
			if c.others > 0 {
				put("boot/ostree/os-bbbb/vmlinuz-0", c.others)
			}
			put("ostree/deploy/os/deploy/c0ffee.1/usr/lib/modules/2/vmlinuz", c.next)
			put("ostree/deploy/os/deploy/c0ffee.1/usr/lib/modules/2/initramfs.img", 0)
			root, err := files.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close() //nolint:errcheck // a directory of the test
			b := bootSpace{root: root, running: func() string { return "aaaa" }}
			if got := b.BootSpace(c.steps); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if c.next == 200*kib { // a change of arguments keeps the kernel
				return
			}
			if err := b.fits("c0ffee", 1); errors.Is(err, syscall.ENOSPC) != c.full {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAStagedKernelThatDoesNotFitFailsItsStep fails before the machine reboots into the old OS for nothing.
func TestAStagedKernelThatDoesNotFitFailsItsStep(t *testing.T) {
	needRoot(t)
	const script = `
-- os-release --
ID=fedora
VARIANT_ID=coreos
-- programs --
%s
-- machine --
booted image=%sregistry.example/os:1 -- rw
-- after 1 --
staged image=%sregistry.example/os:2 -- rw
booted image=%sregistry.example/os:1 -- rw
`
	for program, prefix := range map[string]string{"rpm-ostree": "ostree-unverified-registry:", "bootc": ""} {
		t.Run(program, func(t *testing.T) {
			text := fmt.Sprintf(script, program, prefix, prefix, prefix)
			o, dir := ostreeMachineOf(t, txtar.Parse([]byte(text)))
			boot, deployed := filepath.Join(dir, "boot"), "ostree/deploy/os/deploy/c0ffee.0/usr/lib/modules/2"
			if err := errors.Join(os.Mkdir(boot, 0o755), unix.Mount("none", boot, "tmpfs", 0, "size=64k"),
				os.MkdirAll(filepath.Join(boot, "ostree/os-aaaa"), 0o755),
				os.WriteFile(filepath.Join(boot, "ostree/os-aaaa/vmlinuz-1"), make([]byte, 32<<10), 0o600),
				os.MkdirAll(filepath.Join(dir, deployed), 0o755),
				os.WriteFile(filepath.Join(dir, deployed, "vmlinuz"), make([]byte, 33<<10), 0o600)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(boot, unix.MNT_DETACH) }) //nolint:errcheck // a directory of the test
			running := func() string { return "aaaa" }
			switch o := o.(type) {
			case *RPMOSTree:
				o.running = running
			case *Bootc:
				o.running = running
			}
			err := o.Stage(t.Context(), stepOf(t, "image: registry.example/os:1 -> registry.example/os:2"))
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the file system /boot has 32 KiB "+
				"free, and the kernel of the new OS needs 33 KiB there beside the one that runs: see df /boot") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// needRoot skips a test that mounts a file system, unless CI runs it.
func needRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("it mounts a file system, which takes root, and CI has to run it")
	default:
		t.Skip("it mounts a file system, which takes root: run the tests as root, as make test does in CI")
	}
}
