package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheUnitsAreRightToSystemd lets systemd itself judge the units, with a binary where they expect it, and the
// command lines be judged by the commands.
func TestTheUnitsAreRightToSystemd(t *testing.T) {
	units, err := filepath.Glob(filepath.Join("..", "..", "config", "daemon", "systemd", "*.service"))
	if err != nil || len(units) != 4 {
		t.Fatalf("%q %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			call, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/machine-config-daemon ")
			if !ok {
				continue
			}
			cmd, rest, err := newRoot().Find(strings.Fields(call))
			if err != nil {
				t.Fatalf("%s: %v", unit, err)
			}
			if err := cmd.ParseFlags(rest); err != nil || len(cmd.Flags().Args()) > 0 {
				t.Errorf("%s: %s: %v %q", unit, call, err, cmd.Flags().Args())
			}
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	switch {
	case err != nil && os.Geteuid() == 0:
		t.Fatalf("%v: install the package systemd; make setup does", err)
	case err != nil:
		t.Skipf("%v: make setup as root installs it, and as root this is no skip", err)
	}
	root := t.TempDir()
	bin := filepath.Join(root, "usr/local/bin/machine-config-daemon")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, filepath.Base(unit))
		if err := os.WriteFile(at, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/machine-config-daemon",
			bin)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", at).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(unit)+":") {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}
