package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Packages are in every base: what a node has that runs systemd, logind, sshd and the daemon.
var Packages = []string{
	"ca-certificates", "curl", "dbus", "iproute2", "iputils-ping", "kmod", "libpam-systemd", "nftables",
	"openssh-server", "passwd",
	"procps", "systemd", "systemd-sysv", "udev",
}

// tailor makes a base of the packages: units that cannot work in a container are masked, nothing is enabled by default
// (as on CoreOS), and without a machine-id the first boot is a first boot.
const tailor = `set -eu
cd "$1"
for unit in nftables.service systemd-firstboot.service console-getty.service apt-daily.timer apt-daily-upgrade.timer; do
  ln -sf /dev/null "etc/systemd/system/$unit"
done
echo 'disable *' > usr/lib/systemd/system-preset/99-default-disable.preset
rm -f etc/machine-id var/lib/dbus/machine-id etc/hostname etc/resolv.conf
rm -rf var/cache/apt/* var/lib/apt/lists/*
`

// Base is the directory of a Debian root file system with systemd and more packages: of the release that this machine
// runs, from where this machine gets its packages. It is made once for its content (minutes), is shared, and must not
// be written to: hosts stand on it by overlays.
func Base(t testing.TB, packages ...string) string {
	t.Helper()
	Need(t)
	packages = append(slices.Clone(packages), Packages...)
	slices.Sort(packages)
	packages = slices.Compact(packages)
	suite, sources, err := aptSources("/")
	if err != nil {
		t.Fatalf("reading where this machine gets its packages: %v", err)
	}
	content := strings.Join([]string{suite, sources, tailor, strings.Join(packages, " ")}, "\x00")
	return Cached(t, "base", content, func(dir string) error {
		t.Logf("making a base of %s with %s: minutes, once", suite, strings.Join(packages, " "))
		return bootstrap(dir, suite, sources, packages)
	})
}

// bootstrap fills an empty directory.
func bootstrap(dir, suite, sources string, packages []string) error {
	argv := []string{
		"mmdebstrap", "--quiet", "--mode=root", "--format=directory", "--variant=minbase", "--include=" +
			strings.Join(packages, ","),
		"--customize-hook=" + dir + ".tailor",
	}
	for _, file := range aptOptions("/") {
		argv = append(argv, "--aptopt="+file)
	}
	if err := os.WriteFile(dir+".tailor", []byte("#!/bin/sh\n"+tailor), 0o700); err != nil {
		return err
	}
	defer os.Remove(dir + ".tailor") //nolint:errcheck // it is in the run's own directory
	cmd := exec.Command("nice", append(argv, suite, dir, "-")...)
	// Its mounts are its own: those of one that was killed would be in the way of whoever clears up. It dies with its
	// thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stdin = strings.NewReader(sources)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, tail(out))
	}
	return nil
}

// aptSources is the release that a machine runs, and its sources of packages that have that release, as deb822 or as
// lines.
func aptSources(root string) (suite, sources string, err error) {
	release, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(release)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(name, `"`)
		}
	}
	var lines, stanzas []string
	files := globs(root, "etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		if filepath.Ext(file) != ".sources" {
			lines = append(lines, linesOf(string(text), suite)...)
			continue
		}
		for stanza := range strings.SplitSeq(string(text), "\n\n") {
			if hasField(stanza, suite) {
				stanzas = append(stanzas, strings.TrimSpace(stanza)+"\n")
			}
		}
	}
	switch {
	case suite == "" || len(lines)+len(stanzas) == 0:
		return "", "", fmt.Errorf("found no source of %q in %q: real hosts are made of this machine's own Debian",
			suite, files)
	case len(stanzas) == 0:
		return suite, strings.Join(lines, "\n") + "\n", nil
	}
	for _, line := range lines {
		stanzas = append(stanzas, stanzaOf(line))
	}
	return suite, strings.Join(stanzas, "\n"), nil
}

// linesOf picks the one-line sources of a release and of its updates.
func linesOf(text, suite string) (found []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "deb" && slices.ContainsFunc(words, func(w string) bool {
			return isSuite(w, suite)
		}) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// stanzaOf writes a one-line source as deb822, for a machine that has both. Options in brackets are left out.
func stanzaOf(line string) string {
	if open, end := strings.Index(line, "["), strings.Index(line, "]"); open >= 0 && end > open {
		line = line[:open] + line[end+1:]
	}
	words := strings.Fields(line)
	return "Types: deb\nURIs: " + words[1] + "\nSuites: " + words[2] + "\nComponents: " + strings.Join(words[3:], " ") +
		"\n"
}

// hasField tells whether a deb822 stanza is one of a release or of its updates.
func hasField(stanza, suite string) bool {
	for line := range strings.Lines(stanza) {
		if names, ok := strings.CutPrefix(line, "Suites:"); ok {
			return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return isSuite(n, suite) })
		}
	}
	return false
}

func isSuite(name, suite string) bool { return name == suite || strings.HasPrefix(name, suite+"-") }

// aptOptions are the files that say how this machine reaches its packages.
func aptOptions(root string) (files []string) {
	for _, file := range globs(root, "etc/apt/apt.conf", "etc/apt/apt.conf.d/*") {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("Acquire::")) {
			files = append(files, file)
		}
	}
	return files
}

func globs(root string, patterns ...string) (files []string) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err == nil {
			files = append(files, found...)
		}
	}
	return files
}

// tail is the end of what a program said.
func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }
