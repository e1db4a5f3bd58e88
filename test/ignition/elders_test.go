package ignition

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
)

// debian is the Ignition that Debian has: older, and built by somebody else. It is taken out of its package, by the
// machine's own apt, and not installed.
func debian(t *testing.T) judge {
	t.Helper()
	j := need(t)
	version := output(t, "apt-cache", "policy", "ignition")
	dir := lab.Cached(t, "debian-ignition", version+runtime.GOARCH, func(dir string) error {
		for _, args := range [][]string{
			{"apt-get", "--quiet", "download", "ignition"},
			{"sh", "-c", "dpkg-deb --extract ignition_*.deb . && rm ignition_*.deb"},
		} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
			}
		}
		return nil
	})
	j.bin = filepath.Join(dir, "usr/lib/dracut/modules.d/30ignition/ignition")
	// It relabels for SELinux whatever the system: an image without it has to say so, and have a program that does
	// nothing.
	j.programs = script(t, "setfiles", "exec cat >/dev/null")
	return j
}

// spec2 is the last Ignition before spec 3.
func spec2(t *testing.T) judge {
	t.Helper()
	j := need(t)
	j.version, j.flags = "0.35.0", "-oem file"
	// It looks for users with the machine's own id, and the image of these tests has no programs.
	const module = "github.com/coreos/ignition/internal"
	flags := "-X " + module + "/version.Raw=" + j.version + " -X " + module + "/distro.chrootCmd=chroot"
	versions, err := os.ReadFile("spec2/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	dir := lab.Cached(t, "ignition-spec2", string(versions)+flags+runtime.Version(), func(dir string) error {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "ignition"), "-ldflags", flags, module)
		cmd.Dir, cmd.Env = "spec2", append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building Ignition %s: %w\n%s", j.version, err, out)
		}
		return nil
	})
	j.bin = filepath.Join(dir, "ignition")
	j.programs = script(t, "chroot", `grep -q "^$3:" "$1/etc/passwd"`) // chroot ROOT id NAME
	return j
}

// script makes a folder with a program of that name.
func script(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"),
		0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

// selinux is what Debian's Ignition wants to see in an image.
const selinux = "SELINUX=disabled\nSELINUXTYPE=none\n"

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
