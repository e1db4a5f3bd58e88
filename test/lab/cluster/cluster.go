package cluster

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/test/lab"
)

// Cluster is a control plane with nodes.
type Cluster struct {
	// Network of the control plane and of all nodes.
	Network *lab.Network
	// Nodes in the order of their start.
	Nodes []*lab.Host
	// SmallDisks are the directories of this machine that the nodes have at SmallDisk, by the names of the nodes.
	SmallDisks map[string]string
	// Kubeconfig of an administrator. It works in Network alone.
	Kubeconfig string

	t testing.TB
	// bin has the programs.
	bin  string
	base string
	// registry is the address of the test's registry, and images serves it.
	registry string
	images   *registry
	form     form
}

// kubernetesService is the address of the Service kubernetes. The API server's certificate has it, so nodes and pods
// use it.
const kubernetesService = "10.96.0.1"

// newCluster returns a cluster without nodes, with its network and its registry.
func newCluster(t testing.TB) *Cluster {
	t.Helper()
	lab.Need(t)
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	bin := os.Getenv("BUNSEN_BIN")
	if bin == "" {
		t.Fatal("BUNSEN_BIN does not name the directory of the programs: run make test-install")
	}
	c := &Cluster{
		t: t, bin: bin, base: lab.Base(t, lab.ContainerPackages...), Network: lab.NewNetwork(t),
		images: newRegistry(), SmallDisks: map[string]string{},
	}
	allowWatches(c)
	startRegistry(c)
	return c
}

// allowWatches raises the number of inotify instances of root if it is that of a desktop: kubelets on one kernel share
// it, and one without an instance ends again and again.
func allowWatches(c *Cluster) {
	const limit, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	text, err := os.ReadFile(limit)
	c.must(err)
	if is, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || is < enough {
		c.must(errors.Join(err, os.WriteFile(limit, []byte(strconv.Itoa(enough)), 0o644)))
	}
}

// Start starts a control plane, and one node for each name. It returns when all nodes are Ready.
func Start(t testing.TB, names ...string) *Cluster {
	t.Helper()
	c := newCluster(t)
	phase := Clock(t)
	startPlane(c)
	phase("the control plane runs")
	c.form = allowJoins(c)
	for _, name := range names {
		c.startNode(name)
	}
	c.awaitReady(len(names))
	phase(fmt.Sprintf("%d nodes are Ready", len(names)))
	return c
}

// awaitReady waits until a number of nodes are Ready.
func (c *Cluster) awaitReady(nodes int) {
	c.t.Helper()
	c.Await("all nodes are Ready", func() bool {
		out, err := c.kubectl("get", "nodes", "--no-headers")
		return err == nil && strings.Count(out, " Ready ") == nodes
	})
}

// startRegistry serves images in the network. The first of them is the one that holds the namespaces of a pod.
func startRegistry(c *Cluster) {
	program := filepath.Join(c.t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("building pause: %v\n%s", err, out)
	}
	content, err := os.ReadFile(program)
	c.must(err)
	config := map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"}
	c.must(c.images.addImage([]string{"pause:test"}, config, imageFile{Path: "pause", Content: content}))
	l := c.Network.Listen(0)
	c.registry = l.Addr().String()
	server := &http.Server{Handler: c.images, ReadHeaderTimeout: time.Minute}
	go server.Serve(l)                     //nolint:errcheck // it ends with its listener
	c.t.Cleanup(func() { server.Close() }) //nolint:errcheck,gosec // it ends with the test
}

// startPlane starts the embedded control plane in the network. Its data lie in memory, because etcd syncs each write.
func startPlane(c *Cluster) {
	data := filepath.Join(c.t.TempDir(), "plane")
	c.must(os.Mkdir(data, 0o700))
	c.must(unix.Mount("bunsen-lab", data, "tmpfs", 0, "size=1g,mode=0700"))
	c.t.Cleanup(func() {
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			c.t.Errorf("unmounting the data of the control plane: %v", err)
		}
	})
	c.Kubeconfig = filepath.Join(data, "kubeconfig")
	ctx, stop := context.WithCancel(context.Background())
	cmd := c.Network.Command(ctx, filepath.Join(c.bin, "bunsen-standalone"), "up", "--bare", "--data", data)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = time.Minute
	said, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	c.must(cmd.Start())
	ended := make(chan struct{})
	c.t.Cleanup(func() { stop(); <-ended })
	up := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "Up after") {
				close(up)
			}
		}
	}()
	go func() { defer close(ended); cmd.Wait(); write.Close() }() //nolint:errcheck,gosec // it was told to end
	select {
	case <-up:
	case <-ended:
		c.t.Fatal("the control plane ended before it was up")
	case <-time.After(2 * time.Minute):
		c.t.Fatal("the control plane was not up after two minutes")
	}
	c.run("ip", "addr", "replace", kubernetesService+"/32", "dev", "br0")
	c.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	c.Network.ForwardInside(net.JoinHostPort(kubernetesService, "443"), "127.0.0.1:16443")
}

// joinObjects let the bearers of a bootstrap token become nodes, as kubeadm sets it up.
const joinObjects = `apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-abcdef, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData: {token-id: abcdef, token-secret: 0123456789abcdef, usage-bootstrap-authentication: "true", auth-extra-groups: system:bootstrappers:nodes}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-bootstrap}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node-bootstrapper"}
subjects: [{kind: Group, name: "system:bootstrappers:nodes", apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-approved}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"}
subjects: [{kind: Group, name: "system:bootstrappers:nodes", apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-renewed}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"}
subjects: [{kind: Group, name: "system:nodes", apiGroup: rbac.authorization.k8s.io}]
`

// allowJoins lets kubelets join the embedded control plane, and returns what their nodes have.
func allowJoins(c *Cluster) form {
	c.t.Helper()
	c.Apply(joinObjects)
	encoded := c.Kubectl("config", "view", "--raw", "--flatten", "-o",
		"jsonpath={.clusters[0].cluster.certificate-authority-data}")
	ca, err := base64.StdEncoding.DecodeString(encoded)
	c.must(err)
	bootstrap := `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://` + kubernetesService + `:443", certificate-authority-data: ` + encoded + `}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
`
	return form{programs: []string{"kubelet"}, files: map[string]string{
		"etc/kubernetes/ca.crt": string(ca), "etc/kubernetes/bootstrap": bootstrap,
		"etc/kubernetes/kubelet.yaml": kubeletConfig, "etc/systemd/system/kubelet.service": kubeletService,
	}}
}

// Kubectl runs kubectl as an administrator, and fails the test where it fails.
func (c *Cluster) Kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.kubectl(args...)
	if err != nil {
		c.t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return out
}

// Try runs kubectl as an administrator, and returns what it says also if it fails.
func (c *Cluster) Try(args ...string) (string, error) { return c.kubectl(args...) }

func (c *Cluster) kubectl(args ...string) (string, error) {
	cmd := c.Network.Command(c.t.Context(), append([]string{
		filepath.Join(c.bin, "assets", "kubectl"), "--kubeconfig",
		c.Kubeconfig,
	}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Apply applies objects.
func (c *Cluster) Apply(objects string) {
	c.t.Helper()
	cmd := c.Network.Command(c.t.Context(), filepath.Join(c.bin, "assets", "kubectl"), "--kubeconfig", c.Kubeconfig,
		"apply", "-f", "-")
	cmd.Stdin = strings.NewReader(objects)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("applying objects: %v\n%s", err, out)
	}
}

// Bunsen runs the command line with an administrator's kubeconfig.
func (c *Cluster) Bunsen(args ...string) (string, error) {
	cmd := c.Network.Command(c.t.Context(), append([]string{filepath.Join(c.bin, "bunsen")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	out, err := cmd.CombinedOutput()
	c.t.Logf("bunsen %s: %v\n%s", strings.Join(args, " "), err, out)
	return string(out), err
}

// Account makes a ServiceAccount with ClusterRoles on the whole cluster, and returns a kubeconfig of it.
func (c *Cluster) Account(name string, roles ...string) string {
	c.t.Helper()
	c.Kubectl("create", "serviceaccount", name)
	for _, role := range roles {
		c.Kubectl("create", "clusterrolebinding", name+"-"+role, "--clusterrole="+role, "--serviceaccount=default:"+
			name)
	}
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	c.must(os.WriteFile(file, []byte(c.Kubectl("config", "view", "--raw", "--flatten")), 0o600))
	token := strings.TrimSpace(c.Kubectl("create", "token", name))
	c.Kubectl("--kubeconfig", file, "config", "set-credentials", name, "--token="+token)
	c.Kubectl("--kubeconfig", file, "config", "set-context", "--current", "--user="+name)
	return file
}

// Await waits until something is true, at most six minutes.
func (c *Cluster) Await(what string, is func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 6*time.Minute)
	defer cancel()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		if is() {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waiting until %s: it took too long", what)
		}
	}
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run runs a program in the network.
func (c *Cluster) run(argv ...string) {
	c.t.Helper()
	if out, err := c.Network.Command(c.t.Context(), argv...).CombinedOutput(); err != nil {
		c.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}
