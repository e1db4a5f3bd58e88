package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

// envFile has a secret, which marks declares. Everyone on the host may read it.
const envFile = "NAME=app\nDB_PASSWORD=correct-horse\n"

const env = `variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/app.env
      mode: 0644
      contents: {inline: "NAME=app\nDB_PASSWORD=correct-horse\n"}
`

// marks declares the contents of envFile as secret.
const marks = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
  annotations: {review.bunsen.dev/secret-paths: /etc/app.env}
spec:
  managementState: Managed
`

// adoptDrift: an operator changes two files of the config on a host. The lines that differ are read by exec in the
// daemon's pod, without those of the file that is marked as secret. A user who may not exec is told who may. The other
// file becomes a document of the repository, which is not pushed.
func adoptDrift(t *testing.T, c *cluster.Cluster, repo *cluster.Repository, h *lab.Host) {
	t.Helper()
	node := "node/" + h.Name
	h.Sh("echo second > /etc/app.conf; sed -i 's/app$/other/; s/correct-horse/battery-staple/' /etc/app.env")
	c.Await("the node reports both files", func() bool {
		report := c.Kubectl("get", node, "-o", `jsonpath={.metadata.annotations.bunsen\.dev/drift}`)
		return strings.Contains(report, "/etc/app.conf") && strings.Contains(report, "/etc/app.env")
	})
	expect := func(fails bool, args []string, has ...string) {
		t.Helper()
		out, err := c.Bunsen(args...)
		if (err != nil) != fails {
			t.Errorf("bunsen %q: %v\n%s", args, err, out)
		}
		for _, text := range has {
			if !strings.Contains(out, text) {
				t.Errorf("bunsen %q does not print %q:\n%s", args, text, out)
			}
		}
		for _, secret := range []string{"correct-horse", "battery-staple"} {
			if strings.Contains(out, secret) {
				t.Errorf("bunsen %q prints the secret %q:\n%s", args, secret, out)
			}
		}
	}
	expect(true, []string{"drift", node}, "/etc/app.conf", "/etc/app.env")
	expect(false, []string{"drift", "show", node, "/etc/app.conf"}, "\n-first\n+second\n")
	expect(false, []string{"drift", "show", node, "/etc/app.env"}, "(hidden: the contents are secret)")
	expect(true, []string{"drift", "adopt", node, "/etc/app.env"}, "its contents are secret")

	viewer := c.Account("viewer", "view", "bunsen-config-viewer")
	hint := "as a user with the right to create pods/exec in the namespace bunsen-system:\n" +
		"  kubectl exec -n bunsen-system machine-config-daemon-"
	expect(false, []string{"drift", "show", node, "/etc/app.conf", "--kubeconfig", viewer},
		`User "system:serviceaccount:default:viewer" cannot`, `resource "pods/exec"`, "Run this "+hint)
	expect(true, []string{"drift", "adopt", node, "/etc/app.conf", "--kubeconfig", viewer}, `resource "pods/exec"`,
		"--from", hint)

	h.Sh("printf '" + strings.ReplaceAll(envFile, "\n", `\n`) + "' > /etc/app.env")
	file := exportByHand(t, c, h, viewer)
	expect(false, []string{"drift", "adopt", node, "/etc/app.conf", "--kubeconfig", viewer, "--from", file},
		"inline: |\n          second\n")
	expect(false, []string{"drift", "adopt", node, "/etc/app.conf", "--out", repo.Dir},
		"pools/worker/99-drift-etc-app-conf.bu")
	expect(false, []string{"validate", repo.Dir})
	c.Await("the node reports the adopted file alone", func() bool {
		return !strings.Contains(c.Kubectl("get", node, "-o", `jsonpath={.metadata.annotations.bunsen\.dev/drift}`),
			"/etc/app.env")
	})
}

// exportByHand runs the command that a user without the right to exec is told, as an administrator, and returns the
// file with what it printed.
func exportByHand(t *testing.T, c *cluster.Cluster, h *lab.Host, viewer string) string {
	t.Helper()
	out, _ := c.Bunsen("drift", "adopt", "node/"+h.Name, "/etc/app.conf", "--kubeconfig", viewer)
	_, line, found := strings.Cut(out, "  kubectl ")
	line, _, ends := strings.Cut(line, " > drift.json")
	if !found || !ends {
		t.Fatalf("no command line in\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "drift.json")
	if err := os.WriteFile(file, []byte(c.Kubectl(strings.Fields(line)...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
