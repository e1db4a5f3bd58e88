package reboots

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/test/lab"
)

var (
	updates = flag.Int("reboots", 5, "updates with a reboot during which the daemon is stopped")
	seed    = flag.Uint64("reboots-seed", 0, "seed of the moments; 0 takes another one each time")
)

const (
	node   = "node-1"
	daemon = "machine-config-daemon"
	// patience is how long one update may take, on a machine that has other things to do.
	patience = 4 * time.Minute
)

// TestEachUpdateBootsOnce is all of it.
func TestEachUpdateBootsOnce(t *testing.T) {
	lab.Need(t)
	c := newCluster(t)
	h := c.newHost()
	c.update("rendered-first", "first")
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	t.Logf("-reboots-seed=%d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1)) //nolint:gosec // moments
	names, counts, before := slices.Sorted(maps.Keys(disturbances)), map[string]int{}, h.Boots()
	for i := range *updates {
		d := &disturber{h: h, what: names[r.IntN(len(names))], phase: host.Rebooting}
		d.after = time.Duration(r.IntN(80)) * time.Millisecond
		if r.IntN(4) == 0 { // The steps take a few milliseconds.
			d.phase, d.after = host.Applying, time.Duration(r.IntN(20))*time.Millisecond
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool, 1)
		go func() { done <- d.run(ctx) }()
		c.update(fmt.Sprintf("rendered-%d", i), fmt.Sprintf("update %d", i))
		cancel()
		if <-done {
			counts[d.what]++
		}
		if is := h.Boots() - before; is != i+1 {
			t.Fatalf("update %d, with %s: the host was booted %d times since the first", i, d, is)
		}
		if text := h.Do("cat", "/etc/disturbed"); text != fmt.Sprintf("update %d", i) {
			t.Fatalf("update %d, with %s: the host has %q", i, d, text)
		}
	}
	t.Logf("%d updates, each with one boot, disturbed by %v", *updates, counts)
	nothingWentBack(t, h)
}

// nothingWentBack reads the journal of all boots: after logind said that the system reboots, no step was rolled back.
func nothingWentBack(t *testing.T, h *lab.Host) {
	out := h.Do("journalctl", "--no-pager", "--boot=all", "--output=short-precise", "--identifier=systemd-logind",
		"--identifier="+daemon)
	accepted, looked, undone, goesDown := 0, 0, 0, false
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, "-- Boot"):
			goesDown = false
		case strings.Contains(line, "System is rebooting"), strings.Contains(line, "The system will reboot now"):
			goesDown = true
			accepted++
		case strings.Contains(line, "looking again whether the machine reboots"):
			looked++
		case strings.Contains(line, `"rolled back"`):
			undone++
			if goesDown {
				t.Errorf("rolled back while the host went down: %s", line)
			}
		}
	}
	t.Logf("logind accepted %d reboots; the daemon looked again %d times, and rolled %d steps back before a reboot",
		accepted, looked, undone)
	if accepted < *updates {
		t.Errorf("the journal has %d reboots, so it proves nothing:\n%s", accepted, out)
	}
}

// cluster is a real API server with one Node.
type cluster struct {
	t       *testing.T
	env     *envtest.Environment
	objects dynamic.Interface
}

var (
	nodes   = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	configs = schema.GroupVersionResource{
		Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigs",
	}
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "..", "bin", "assets")
	}
	no := false
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: &no, ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").
		Append("enable-admission-plugins", "NodeRestriction")
	config, err := env.Start()
	if err != nil {
		t.Fatalf("starting kube-apiserver, which make assets builds: %v", err)
	}
	t.Cleanup(func() { _ = env.Stop() }) // What does not stop in time is killed.
	c := &cluster{t: t, env: env}
	config.QPS, config.Burst = 100, 100
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	admin := c.kubeconfig(envtest.User{Name: "admin", Groups: []string{"system:masters"}})
	for _, args := range [][]string{
		{"apply", "-k", "../../../config"},
		{"apply", "-k", "../../../config/components/nodes-read-configs"}, // No machine-config-server runs.
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"},
	} {
		at := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(at, admin, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(assets, "kubectl"), append([]string{"--kubeconfig", at}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	c.create(nodes, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node}})
	return c
}

func (c *cluster) kubeconfig(user envtest.User) []byte {
	c.t.Helper()
	who, err := c.env.AddUser(user, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := who.KubeConfig()
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

func (c *cluster) create(gvr schema.GroupVersionResource, object map[string]any) {
	c.t.Helper()
	_, err := c.objects.Resource(gvr).Create(c.t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) annotate(key, value string) {
	c.t.Helper()
	c.patch(fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// acknowledge does what the controller does at a request: it cordons or uncordons the Node, and acknowledges.
func (c *cluster) acknowledge(request string) {
	c.t.Helper()
	c.patch(fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"unschedulable":%t}}`,
		v1alpha1.LastAppliedDrainAnnotation, request, !strings.HasPrefix(request, "uncordon")))
}

func (c *cluster) patch(patch []byte) {
	c.t.Helper()
	_, err := c.objects.Resource(nodes).Patch(c.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

// update assigns a new config to the Node, acknowledges its drains, and waits until the daemon has applied it.
func (c *cluster) update(name, text string) {
	c.t.Helper()
	file := map[string]any{
		"path": "/etc/disturbed", "overwrite": true,
		"contents": map[string]any{"source": "data:," + strings.ReplaceAll(text, " ", "%20")},
	}
	c.create(configs, map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"config": map[string]any{
			"ignition": map[string]any{"version": "3.5.0"}, "storage": map[string]any{"files": []any{file}},
		}},
	})
	c.annotate(v1alpha1.DesiredConfigAnnotation, name)
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		o, err := c.objects.Resource(nodes).Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", name, err)
		}
		n := report.NodeOf(o.GetAnnotations())
		switch {
		case n.DesiredDrain != n.LastAppliedDrain:
			c.acknowledge(n.DesiredDrain)
		case n.State == v1alpha1.StateDone && n.Current == name && strings.HasPrefix(n.DesiredDrain, "uncordon"):
			return
		case n.State == v1alpha1.StateDone && n.Current == name && n.DesiredDrain == "":
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waiting for %s: the Node says %+v", name, n)
		}
	}
}

// newHost boots a host with the daemon as a service, which reaches the API server.
func (c *cluster) newHost() *lab.Host {
	c.t.Helper()
	network := lab.NewNetwork(c.t)
	server, err := url.Parse(c.env.Config.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	api := network.Forward(0, server.Host)
	kubelet := envtest.User{Name: "system:node:" + node, Groups: []string{"system:nodes"}}
	config, err := clientcmd.Load(c.kubeconfig(kubelet))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.TLSServerName = "https://"+api, "127.0.0.1"
	}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		c.t.Fatal(err)
	}
	program := c.program()
	return lab.Start(c.t, lab.Options{Name: node, Network: network, Prepare: func(root string) error {
		unit, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "daemon", "systemd", daemon+".service"))
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		settings := "[Service]\nExecStart=\nExecStart=/usr/local/bin/" + daemon + " start --health-settle 10ms " +
			"--health-timeout 30s --kubelet-healthz-enabled=false\nRestartSec=1\n"
		units := filepath.Join(root, "usr/lib/systemd/system")
		var errs []error
		for _, f := range []struct {
			at   string
			text []byte
			mode os.FileMode
		}{
			{filepath.Join(root, "usr/local/bin", daemon), binary, 0o755},
			{filepath.Join(root, "var/lib/kubelet/kubeconfig"), kubeconfig, 0o600},
			{filepath.Join(units, daemon+".service"), unit, 0o644},
			{filepath.Join(units, daemon+".service.d/10-patience.conf"), []byte(settings), 0o644},
		} {
			errs = append(errs, os.MkdirAll(filepath.Dir(f.at), 0o755), os.WriteFile(f.at, f.text, f.mode))
		}
		wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
		return errors.Join(append(errs, os.MkdirAll(wants, 0o755),
			os.Symlink("/usr/lib/systemd/system/"+daemon+".service", filepath.Join(wants, daemon+".service")),
			// The journal of all boots is the evidence.
			os.MkdirAll(filepath.Join(root, "var/log/journal"), 0o755))...)
	}})
}

// program is the daemon's binary.
func (c *cluster) program() string {
	c.t.Helper()
	if dir := os.Getenv("BUNSEN_BIN"); dir != "" {
		return filepath.Join(dir, daemon)
	}
	at := filepath.Join(c.t.TempDir(), daemon)
	cmd := exec.Command("go", "build", "-o", at, "./cmd/"+daemon)
	cmd.Dir, cmd.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("building the daemon: %v\n%s", err, out)
	}
	return at
}
