package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

// onNode runs the script of its standard input in a host: in the namespaces of the child of systemd-nspawn that is
// process 1 there.
const onNode = `#!/bin/sh
for nspawn in $(pgrep -f -- --directory=ROOT); do
	for init in $(pgrep -P "$nspawn"); do
		grep -q '^NSpid:.*[[:space:]]1$' "/proc/$init/status" && exec nsenter --target "$init" --all -- /bin/sh
	done
done
exit 1
`

// tryRealNode runs the script for people with real machines on a host, and reads its report.
func tryRealNode(t *testing.T, c *cluster.Cluster, h *lab.Host) {
	t.Helper()
	dir := t.TempDir()
	inside := filepath.Join(dir, "on-node")
	if err := os.WriteFile(inside, []byte(strings.ReplaceAll(onNode, "ROOT", h.Root)), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := c.Network.Command(t.Context(), "../../real/try.sh", h.Name)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "ON_NODE="+inside, "PATIENCE=300",
		"PATH="+filepath.Join(os.Getenv("BUNSEN_BIN"), "assets")+":"+os.Getenv("PATH"))
	var progress strings.Builder
	cmd.Stderr = &progress
	report, err := cmd.Output()
	if err != nil {
		t.Fatalf("the trial: %v\n%s\n%s", err, progress.String(), report)
	}
	for _, want := range []string{
		"# A trial of Bunsen on Debian", "| Change a file that needs no reboot |", "| 0 | ok |", "| 1 | ok |",
		"| Add a kernel argument |", "not supported here: ", "| Refuse what the machine cannot have",
		"left changed: none",
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report has no %q:\n%s\n%s", want, progress.String(), report)
		}
	}
	t.Logf("%s", report)
}
