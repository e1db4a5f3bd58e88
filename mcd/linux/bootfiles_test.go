package linux_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestABootLoaderThatCannotBeWrittenIsToldBefore: many Debian machines mount /boot read-only, and Flatcar may do so
// with /oem.
func TestABootLoaderThatCannotBeWrittenIsToldBefore(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("it takes root, and CI runs all tests")
		}
		t.Skip("it mounts file systems, which takes root: run the tests as root, as make test does in CI")
	}
	debian := map[string]string{
		"etc/os-release": "ID=debian\n", "usr/sbin/update-grub": "", "boot/grub/grub.cfg": "linux /vmlinuz ro\n",
	}
	flatcar := map[string]string{"etc/os-release": "ID=flatcar\n", "oem/grub.cfg": "", "etc/x": ""}
	kargs := host.Step{Verb: host.SetKargs, After: host.Value{Word: "quiet"}}
	for sentence, c := range map[string]struct {
		has      map[string]string
		readOnly string // a directory
		steps    []host.Step
		told     string // where the blocker is; "" for none
	}{
		"a machine that can be written":          {has: debian, steps: []host.Step{kargs}},
		"a read-only /boot":                      {debian, "boot", []host.Step{kargs}, "/boot/grub"},
		"a read-only /boot stops nothing else":   {has: debian, readOnly: "boot"},
		"a read-only file system with settings":  {debian, "etc", []host.Step{kargs}, "/etc"},
		"a read-only /oem":                       {flatcar, "oem", []host.Step{kargs}, "/oem"},
		"a Flatcar machine that can be written":  {has: flatcar, steps: []host.Step{kargs}},
		"a read-only /oem stops nothing else":    {has: flatcar, readOnly: "oem"},
		"a Flatcar machine with another mount":   {has: flatcar, readOnly: "etc/x", steps: []host.Step{kargs}},
		"a Debian machine with another mount":    {has: debian, readOnly: "usr", steps: []host.Step{kargs}},
		"a read-only /boot, and another OS step": {debian, "boot", []host.Step{{Verb: host.SetImage}}, "/boot/grub"},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			for p, text := range c.has {
				at := filepath.Join(dir, p)
				err := os.MkdirAll(filepath.Dir(at), 0o755)
				if err := errors.Join(err, os.WriteFile(at, []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			h, end, err := linux.OpenReadOnly(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			if c.readOnly != "" {
				at := filepath.Join(dir, c.readOnly)
				err := errors.Join(unix.Mount(at, at, "", unix.MS_BIND, ""),
					unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // a mount of the test
			}
			told := ""
			for _, b := range apply.Blockers(h, plan.Plan{Steps: c.steps}, nil) {
				if b.Kind == host.ReadOnlyMount && b.Path != host.StateDir {
					told = b.At
				}
			}
			if told != c.told {
				t.Errorf("it tells of %q, want %q", told, c.told)
			}
		})
	}
}
