package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/test/lab"
)

// kubeadmToken admits nodes to a cluster of kubeadm.
const kubeadmToken = "abcdef.0123456789abcdef"

// kubeadmConfig is for the first control-plane node. ENDPOINT, FIRST, KEY and VERSION are replaced.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: ` + kubeadmToken + `, groups: ["system:bootstrappers:kubeadm:default-node-token"], usages: [signing, authentication], ttl: 24h0m0s}]
certificateKey: KEY
localAPIEndpoint: {advertiseAddress: FIRST, bindPort: 6443}
nodeRegistration: {criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: VERSION
controlPlaneEndpoint: ENDPOINT
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
# The disk of the machine that runs the test may be slow.
etcd: {local: {dataDir: /var/lib/etcd, extraArgs: [{name: unsafe-no-fsync, value: "true"}]}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
resolvConf: ""
evictionHard: {memory.available: "50Mi", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
`

// kubeadmKubelet is the unit of a kubelet that kubeadm configures. Until then it fails and starts again.
const kubeadmKubelet = `[Unit]
Description=kubelet
Wants=containerd.service
After=containerd.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
`

// StartKubeadm makes a cluster by kubeadm: control-plane nodes m1, m2, … with stacked etcd behind a load balancer, and
// workers w1, w2, …. There is no kube-proxy: the network carries the Service kubernetes to the load balancer, and there
// is no other Service.
func StartKubeadm(t testing.TB, planes, workers int) *Cluster {
	t.Helper()
	c := newCluster(t)
	phase := Clock(t)
	version := kubernetesVersion(c)
	serveControlPlane(c, version)
	phase("images of the control plane")

	api := net.JoinHostPort(c.Network.Address(), "6443")
	var names, targets []string
	hosts := "127.0.0.1 localhost\n"
	for i := range planes + workers {
		name, address := fmt.Sprintf("w%d", i-planes+1), fmt.Sprintf("10.77.0.%d", 11+i)
		if i < planes {
			name = fmt.Sprintf("m%d", i+1)
			targets = append(targets, net.JoinHostPort(address, "6443"))
		}
		names, hosts = append(names, name), hosts+address+" "+name+"\n"
	}
	c.Network.ForwardInside(api, targets...)
	c.run("ip", "addr", "replace", kubernetesService+"/32", "dev", "br0")
	c.Network.ForwardInside(net.JoinHostPort(kubernetesService, "443"), targets...)

	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck,gosec // it never fails
	values := strings.NewReplacer("ENDPOINT", api, "FIRST", "10.77.0.11", "KEY", hex.EncodeToString(key), "VERSION",
		version)
	c.form = form{programs: []string{"kubelet", "kubeadm"}, files: map[string]string{
		"etc/hosts": hosts, "etc/systemd/system/kubelet.service": kubeadmKubelet,
		"etc/kubernetes/kubeadm.yaml": values.Replace(kubeadmConfig),
	}}
	for _, name := range names {
		c.startNode(name)
	}
	kubeadm(c, c.Nodes[0], "init", "--config=/etc/kubernetes/kubeadm.yaml", "--upload-certs",
		"--skip-phases=addon/coredns,addon/kube-proxy")
	readAdmin(c)
	phase("kubeadm init")
	for i, h := range c.Nodes[1:] {
		args := []string{"join", api, "--token", kubeadmToken, "--discovery-token-unsafe-skip-ca-verification"}
		if i+1 < planes {
			args = append(args, "--control-plane", "--certificate-key", hex.EncodeToString(key),
				"--apiserver-advertise-address", h.Address)
		}
		kubeadm(c, h, args...)
	}
	c.awaitReady(len(names))
	phase(fmt.Sprintf("%d more nodes joined, all are Ready", len(names)-1))
	return c
}

// kubernetesVersion returns the version that the programs in BUNSEN_BIN were built from, such as v1.37.1.
func kubernetesVersion(c *Cluster) string {
	c.t.Helper()
	out, err := exec.Command(filepath.Join(c.bin, "kubeadm"), "version", "-o", "short").Output()
	if err != nil {
		c.t.Fatalf("reading the version of kubeadm: %v: run make test-cluster", err)
	}
	return strings.TrimSpace(string(out))
}

// serveControlPlane serves one image for etcd and for the programs of the control plane: a static program that runs as
// the name by which it is called.
func serveControlPlane(c *Cluster, version string) {
	c.t.Helper()
	listed, err := exec.Command(filepath.Join(c.bin, "kubeadm"), "config", "images", "list", "--kubernetes-version",
		version).Output()
	c.must(err)
	var names []string
	for image := range strings.Lines(string(listed)) {
		names = append(names, path.Base(strings.TrimSpace(image)))
	}
	const program = "bunsen-standalone"
	content, err := os.ReadFile(filepath.Join(c.bin, program))
	c.must(err)
	files := []imageFile{{Path: "tmp/.keep"}, {Path: "usr/local/bin/" + program, Content: content}}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		files = append(files, imageFile{Path: "usr/local/bin/" + name, Link: program})
	}
	c.must(c.images.addImage(names, map[string]any{"Env": []string{"PATH=/usr/local/bin"}}, files...))
}

// kubeadm runs kubeadm on a node, when its containerd runs.
func kubeadm(c *Cluster, h *lab.Host, args ...string) {
	c.t.Helper()
	c.Await("containerd runs on "+h.Name, func() bool {
		out, err := h.Exec(c.t.Context(), "systemctl", "is-active", "containerd")
		return err == nil && strings.TrimSpace(out) == "active"
	})
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := h.Exec(ctx, append(append([]string{"kubeadm"}, args...),
		"--ignore-preflight-errors=all")...); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}

// readAdmin copies the kubeconfig of the administrator from the first node.
func readAdmin(c *Cluster) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Nodes[0].Root, "etc/kubernetes/admin.conf"))
	c.must(err)
	c.Kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	c.must(os.WriteFile(c.Kubeconfig, text, 0o600))
}
