package cluster

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/test/lab"
)

//go:embed testdata/node-prepare
var nodePrepare string

// nodeFiles are what a node has besides the packages of its base, by path. ADDRESS, SUBNET and REGISTRY are replaced.
var nodeFiles = map[string]string{
	"etc/containerd/config.toml": `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:test"
  # The machine of the test may lack CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
`,
	// Every image comes from the test's registry.
	"etc/containerd/certs.d/_default/hosts.toml": `[host."http://REGISTRY"]
  capabilities = ["pull", "resolve"]
`,
	// It would load kernel modules.
	"etc/systemd/system/containerd.service.d/10-lab.conf": `[Service]
ExecStartPre=
`,
	"etc/cni/net.d/10-bridge.conflist": `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "SUBNET"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`,
	"etc/systemd/system/node-prepare.service": `[Unit]
Description=Give a kubelet what it demands
Before=containerd.service kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/node-prepare
[Install]
WantedBy=multi-user.target
`,
}

// form is what nodes have besides nodeFiles: it depends on how their control plane was made.
type form struct {
	// files by path.
	files map[string]string
	// programs of BUNSEN_BIN, which appear in /usr/local/bin.
	programs []string
}

// kubeletService is the unit of a kubelet that joins the embedded control plane.
const kubeletService = `[Unit]
Description=kubelet
Wants=containerd.service
After=containerd.service
[Service]
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/var/lib/kubelet/kubeconfig --bootstrap-kubeconfig=/etc/kubernetes/bootstrap --node-ip=ADDRESS
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
`

// kubeletConfig is the configuration of a kubelet that joins the embedded control plane.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/ca.crt}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
resolvConf: ""
rotateCertificates: true
# How full the disk is says nothing about this node: it is the disk of the machine that runs the test.
evictionHard: {memory.available: "50Mi", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
`

// startNode launches a host that joins the cluster under its name.
func (c *Cluster) startNode(name string) *lab.Host {
	c.t.Helper()
	return launch(c, name, c.form, func(string) error { return nil })
}

// SmallDisk is a file system of 256 KiB on each node, which a test can fill. It keeps its files when the node reboots.
const SmallDisk = "/srv/small"

// smallDisk makes the file system of a node.
func (c *Cluster) smallDisk() string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "small")
	c.must(os.Mkdir(dir, 0o755))
	c.must(unix.Mount("bunsen-lab", dir, "tmpfs", 0, "size=256k,mode=0755"))
	c.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			c.t.Errorf("unmounting the small disk of a node: %v", err)
		}
	})
	return dir
}

// launch launches a host. prepare changes its root after its files were written.
func launch(c *Cluster, name string, node form, prepare func(root string) error) *lab.Host {
	c.t.Helper()
	number := 11 + len(c.Nodes)
	address, subnet := fmt.Sprintf("10.77.0.%d", number), fmt.Sprintf("10.244.%d.0/24", number)
	c.SmallDisks[name] = c.smallDisk()
	binds := []string{"--bind=" + c.SmallDisks[name] + ":" + SmallDisk}
	for _, program := range node.programs {
		binds = append(binds, "--bind-ro="+filepath.Join(c.bin, program)+":/usr/local/bin/"+program)
	}
	values := strings.NewReplacer("ADDRESS", address, "SUBNET", subnet, "REGISTRY", c.registry)
	h := lab.Launch(c.t, lab.Options{
		Name: name, Base: c.base, Network: c.Network, Containers: true, Args: binds,
		Prepare: func(root string) error {
			if err := furnish(root, node.files, values); err != nil {
				return err
			}
			return prepare(root)
		},
	})
	if h.Address != address {
		c.t.Fatalf("node %s has the address %s, and its files have %s", name, h.Address, address)
	}
	c.run("ip", "route", "replace", subnet, "via", address)
	c.Nodes = append(c.Nodes, h)
	return h
}

// furnish writes the files of a node, with their values.
func furnish(root string, more map[string]string, values *strings.Replacer) error {
	for _, files := range []map[string]string{nodeFiles, more, {"usr/local/lib/node-prepare": nodePrepare}} {
		for path, text := range files {
			at := filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			mode := os.FileMode(0o644)
			if strings.HasPrefix(text, "#!") {
				mode = 0o755
			}
			if err := os.WriteFile(at, []byte(values.Replace(text)), mode); err != nil {
				return err
			}
		}
	}
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	for unit, target := range map[string]string{
		"node-prepare.service": "/etc/systemd/system/node-prepare.service",
		"kubelet.service":      "/etc/systemd/system/kubelet.service",
		"containerd.service":   "/lib/systemd/system/containerd.service",
	} {
		// The package of containerd may have enabled it.
		if err := os.Symlink(target, filepath.Join(wants, unit)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// It would give the host a second address.
	if err := os.Symlink("/dev/null", filepath.Join(root, "etc/systemd/system/systemd-networkd.service")); !errors.Is(
		err, fs.ErrExist) {
		return err
	}
	return nil
}
