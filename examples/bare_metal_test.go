package examples_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// TestTheExampleOnBareMetal renders the config of each machine, and of one without a row.
func TestTheExampleOnBareMetal(t *testing.T) {
	selected, err := transpile.Select(build(t, "bare-metal"), "worker")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := render.Merge("worker", transpile.MachineConfigs(selected), render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	const static = "/etc/NetworkManager/system-connections/static.nmconnection"
	const second = "/etc/NetworkManager/system-connections/storage.nmconnection"
	names := map[string]bool{}
	for _, c := range []struct{ node, address, ethernet, serial string }{
		{"worker-1", "192.0.2.11/24", "eno1", "S4EVNX0R100001"},
		{"worker-2", "192.0.2.12/24", "eno1", "S4EVNX0R100002"},
		{"worker-3", "192.0.2.13/24", "enp3s0", "S4EVNX0R100003"},
		{node: "worker-4"},
	} {
		own, err := pool.Node(c.node)
		if err != nil {
			t.Fatal(err)
		}
		names[own.Name] = true
		files := map[string]string{}
		for _, f := range own.Config.Ignition.Storage.Files {
			text, err := machineconfig.Contents(f.Contents)
			if err != nil {
				t.Fatal(err)
			}
			files[f.Path] = string(text)
		}
		disks := own.Config.Ignition.Storage.Disks
		if !strings.HasPrefix(files["/etc/chrony.conf"], "pool ") {
			t.Errorf("%s has the time servers %q", c.node, files["/etc/chrony.conf"])
		}
		if c.address == "" {
			if len(files) != 1 || len(disks) != 0 {
				t.Errorf("%s has no row, and gets %v and %v", c.node, files, disks)
			}
			continue
		}
		if files["/etc/hostname"] != c.node+"\n" || !strings.Contains(files[static], "\ninterface-name="+c.ethernet+
			"\n") || !strings.Contains(files[static], "\naddress1="+c.address+",192.0.2.1\n") {
			t.Errorf("%s is %q with %q", c.node, files["/etc/hostname"], files[static])
		}
		if len(disks) != 1 || !strings.HasSuffix(disks[0].Device, "_"+c.serial) {
			t.Errorf("%s has the disks %v", c.node, disks)
		}
		if (files[second] != "") != (c.node == "worker-3") {
			t.Errorf("%s has the second interface %q", c.node, files[second])
		}
	}
	if len(names) != 4 {
		t.Errorf("four machines have %d configs", len(names))
	}
}
