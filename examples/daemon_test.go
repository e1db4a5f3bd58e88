package examples_test

import (
	"os"
	"path"
	"slices"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcs/join"
	"github.com/bunsen-os/bunsen/transpile"
)

// Two examples bring the daemon by the address and hash of its binary. Its units are those that a pointer config
// installs.
func TestTheDaemonComesByReference(t *testing.T) {
	for dir, at := range map[string]string{
		"fcos-kubeadm":    join.DefaultBinaryPath,
		"flatcar-kubeadm": "/opt/bin/machine-config-daemon",
	} {
		units, err := join.DaemonUnits(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range units {
			text, err := os.ReadFile(path.Join(dir, "base/files", u.Name))
			if u.Enabled != nil && (err != nil || string(text) != *u.Contents) {
				t.Errorf("%s: %s is not the unit that `bunsen pointer` installs: %v", dir, u.Name, err)
			}
		}
		taken, err := transpile.Select(build(t, dir), "worker")
		if err != nil {
			t.Fatal(err)
		}
		var remote []string
		for _, f := range taken {
			c, err := machineconfig.Parse(f.MachineConfig.Spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range machineconfig.RemoteFiles(c) {
				remote = append(remote, r.Path)
			}
		}
		if !slices.Contains(remote, at) {
			t.Errorf("%s: the remote files are %q, without %s", dir, remote, at)
		}
	}
}
