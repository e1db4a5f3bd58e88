package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/test/lab"
)

// Provision starts a machine whose only config is a pointer config. Ignition gets the rest from a server on another
// node, and the kubelet joins with the bootstrap token that the server added. It returns when all nodes are Ready. The
// daemon runs as a pod.
func Provision(c *Cluster, name, pool string) *lab.Host {
	c.t.Helper()
	dir := c.t.TempDir()
	pointer := c.Network.Command(c.t.Context(), filepath.Join(c.bin, "bunsen"), "pointer", "--pool", pool, "--node",
		name, "--uses", "3",
		"--ttl", "1h", "--daemon", "none", "--server", "https://"+net.JoinHostPort(c.Nodes[0].Address, "22623"))
	pointer.Env, pointer.Stderr = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig), os.Stderr
	config, err := pointer.Output()
	c.must(err)
	c.must(os.WriteFile(filepath.Join(dir, "config.ign"), config, 0o600))
	c.must(os.WriteFile(filepath.Join(dir, "cmdline"), nil, 0o600))
	buildIgnition(c, filepath.Join(dir, "ignition"))

	service := strings.NewReplacer("/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet.conf",
		"/etc/kubernetes/bootstrap", "/etc/kubernetes/kubeconfig")
	node := form{programs: []string{"kubelet"}, files: map[string]string{
		"etc/systemd/system/kubelet.service": service.Replace(kubeletService),
		"etc/kubernetes/kubelet.yaml":        strings.ReplaceAll(kubeletConfig, "/etc/kubernetes/ca.crt", "/etc/kubernetes/kubelet-ca.crt"),
	}}
	h := launch(c, name, node, func(root string) error { return ignite(c, dir, root) })
	c.awaitReady(len(c.Nodes))
	return h
}

// ignite does what Ignition does before the first boot of a machine.
func ignite(c *Cluster, dir, root string) error {
	for _, stage := range []string{"fetch", "files"} {
		cmd := c.Network.Command(c.t.Context(), filepath.Join(dir, "ignition"), "-platform", "file", "-stage", stage,
			"-root", root,
			"-config-cache", filepath.Join(dir, "config.json"), "-state-file", filepath.Join(dir, "state"), "-neednet",
			filepath.Join(dir, "neednet"), "-log-to-stdout")
		cmd.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+filepath.Join(dir, "config.ign"),
			"IGNITION_KERNEL_CMDLINE_PATH="+filepath.Join(dir, "cmdline"),
			"IGNITION_SYSTEM_CONFIG_DIR="+dir, "IGNITION_SYSTEM_RUNTIME_CONFIG_DIR="+dir,
			"IGNITION_SYSTEM_LOCAL_CONFIG_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("running Ignition's stage %s: %w\n%s", stage, err, out)
		}
	}
	return nil
}

// buildIgnition builds the Ignition that test/ignition requires.
func buildIgnition(c *Cluster, program string) {
	c.t.Helper()
	module := filepath.Join("..", "..", "ignition")
	version, err := exec.Command("go", "list", "-C", module, "-m", "-f", "{{.Version}}",
		"github.com/coreos/ignition/v2").Output()
	c.must(err)
	const internal = "github.com/coreos/ignition/v2/internal"
	flags := "-X " + internal + "/version.Raw=" + strings.TrimPrefix(strings.TrimSpace(string(version)), "v") + " -X " +
		internal + "/distro.selinuxRelabel=false"
	build := exec.Command("go", "build", "-C", module, "-o", program, "-ldflags", flags, internal)
	build.Env = append(os.Environ(), "CGO_ENABLED=1") // Ignition needs libblkid
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("building Ignition: %v\n%s", err, out)
	}
}
