package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Variable is set to 1 by whoever wants tests of real hosts to run: make test-host.
const Variable = "BUNSEN_LAB"

// tools are the programs that hosts need, with the Debian packages that have them.
var tools = []struct{ program, pkg string }{
	{"systemd-nspawn", "systemd-container"},
	{"mmdebstrap", "mmdebstrap"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// Need skips a test that was not asked to use real hosts. One that was asked to fails, with all that is missing, where
// this machine cannot run them. More programs that the test needs come as program:package.
func Need(t testing.TB, more ...string) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skip("runs real hosts, as root: make test-host")
	}
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root: real hosts need mounts, namespaces and cgroups")
	}
	if mount, err := cgroups(); err != nil {
		missing = append(missing, "a cgroup2 mount: "+err.Error())
	} else if file, err := os.OpenFile(mount, os.O_RDONLY, 0); err != nil {
		missing = append(missing, "the cgroup2 mount: "+err.Error())
	} else {
		file.Close() //nolint:errcheck,gosec // only looked at
	}
	var packages []string
	for _, tool := range tools {
		more = append(more, tool.program+":"+tool.pkg)
	}
	for _, tool := range more {
		program, pkg, _ := strings.Cut(tool, ":")
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	if len(packages) > 0 {
		missing = append(missing, "programs: apt-get install "+strings.Join(packages, " ")+", or make setup as root")
	}
	if len(missing) > 0 {
		t.Fatalf("%s=1 asks for real hosts, and this machine lacks\n  %s", Variable, strings.Join(missing, "\n  "))
	}
}
