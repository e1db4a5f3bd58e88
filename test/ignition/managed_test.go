package ignition

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/transpile"
)

// TestAMachineOfTheExampleIsManagedFromItsFirstBoot: real Ignition installs the daemon from the server's config,
// systemd starts it, and once the machine has a kubelet's identity, its Node reports the config of its first boot. Then
// the config updates the daemon, and the pod and the service hand over to each other.
func TestAMachineOfTheExampleIsManagedFromItsFirstBoot(t *testing.T) {
	lab.Need(t)
	n := newborn{judge: need(t), speaks: "3.5.0"}
	m := managed{t: t, plane: newPlane(t), network: lab.NewNetwork(t)}
	first := m.example("")
	m.kubectl(text(t, first), "create", "-f", "-")

	s := newServer(t)
	s.daemons = join.Binaries{m.binary(m.build("v1"))}
	if err := s.pools.Set("worker", first); err != nil {
		t.Fatal(err)
	}
	tok, kept := s.grant(join.TokenOptions{Pool: "worker", Node: "born", Uses: 1, TTL: time.Hour})
	s.kept[kept.Name] = kept
	s.start()
	m.host = lab.Start(t, lab.Options{Name: "born", Network: m.network, Prepare: func(root string) error {
		err := errors.Join(n.prepare(root), withoutIdentity(root))
		for _, name := range []string{"chronyd", "crio"} { // from the packages of the image
			err = errors.Join(err, put(filepath.Join(root, "usr/lib/systemd/system", name+".service"),
				"[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"))
		}
		if err != nil {
			return err
		}
		log, err := n.start(t, root, s.pointer(tok.String(), func(p *join.Pointer) {
			p.Daemon = &join.Daemon{Arch: runtime.GOARCH}
		}))
		if err != nil {
			t.Log(log)
		}
		return err
	}})
	for _, unit := range []string{"machine-config-daemon.service", "machine-config-daemon-firstboot.service"} {
		if got := m.host.Do("systemctl", "is-active", unit) + m.host.Do("systemctl", "is-enabled",
			unit); got != "active\nenabled\n" {
			t.Errorf("%s is %q", unit, got)
		}
	}
	m.joins("/etc/kubernetes/kubelet.conf")
	m.await("the Node reports its first config", func() bool {
		return m.node("state") == "Done" && m.node("currentConfig") == first.Name
	})
	m.await("the service reports", func() bool { r := m.report(); return r.Form == "service" && r.Version == "v1" })
	t.Run("the config updates the daemon", func(t *testing.T) { m.updates(first) })
	t.Run("the pod stands by and takes over", func(t *testing.T) { m.handsOver() })
}

// managed is a machine with its cluster.
type managed struct {
	t       *testing.T
	plane   *envtest.Environment
	network *lab.Network
	host    *lab.Host
}

// newPlane is a real API server with our kinds and rights.
func newPlane(t *testing.T) *envtest.Environment {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = "../../bin/assets"
	}
	no := false
	p := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: &no,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	p.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").Append("enable-admission-plugins",
		"NodeRestriction")
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Log(err)
		}
	})
	m := managed{t: t, plane: p}
	m.kubectl("", "apply", "-k", "../../config")
	m.kubectl("", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	m.kubectl("", "apply", "-k", "../../config/components/nodes-read-configs") // no server of the cluster runs
	m.kubectl(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"born"}}`, "create", "-f", "-")
	return p
}

// kubectl runs as an administrator, and returns the standard output.
func (m managed) kubectl(input string, args ...string) string {
	m.t.Helper()
	user, err := m.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	raw, err := user.KubeConfig()
	if err != nil {
		m.t.Fatal(err)
	}
	at := filepath.Join(m.t.TempDir(), "admin.kubeconfig")
	if err := os.WriteFile(at, raw, 0o600); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(m.plane.BinaryAssetsDirectory, "kubectl"),
		append([]string{"--kubeconfig", at}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, bad.String())
	}
	return out.String()
}

// joins gives the machine what kubeadm gives it: the identity of a kubelet.
func (m managed) joins(kubeconfig string) {
	m.t.Helper()
	user, err := m.plane.AddUser(envtest.User{Name: "system:node:born", Groups: []string{"system:nodes"}}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	raw, err := user.KubeConfig()
	if err != nil {
		m.t.Fatal(err)
	}
	server := regexp.MustCompile(`server: https?://(\S+)`)
	address := server.FindSubmatch(raw)
	inside := m.network.Forward(0, string(address[1]))
	host, _, err := net.SplitHostPort(string(address[1]))
	if err != nil {
		m.t.Fatal(err)
	}
	raw = server.ReplaceAll(raw, []byte("server: https://"+inside+"\n    tls-server-name: "+host))
	at := filepath.Join(m.host.Inside(), kubeconfig)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, raw, 0o600)); err != nil {
		m.t.Fatal(err)
	}
}

// example is the rendered config of the flagship's workers, with one more fragment, and without the document that
// brings the daemon, because here the server brings it.
func (m managed) example(fragment string) *mcfgv1.MachineConfig {
	m.t.Helper()
	const dir = "../../examples/fcos-kubeadm"
	built := transpile.Fragments(source.Tree{Root: dir, FS: os.DirFS(dir)})
	var all []*mcfgv1.MachineConfig
	for _, f := range built.Fragments {
		if f.Pool == "worker" && !strings.HasSuffix(f.Name, "-daemon") {
			all = append(all, f.MachineConfig)
		}
	}
	if fragment != "" {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   "90-more",
			Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
		}}
		mc.Spec.Config.Raw = []byte(fragment)
		all = append(all, mc)
	}
	r, err := render.Merge("worker", all, render.Defaults{})
	if err != nil || len(all) < 5 {
		m.t.Fatal(err, built.Report)
	}
	return &mcfgv1.MachineConfig{TypeMeta: metav1.TypeMeta{
		APIVersion: mcfgv1.GroupVersion.String(),
		Kind:       "MachineConfig",
	}, ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
}

// build builds the daemon as a release is built.
func (m managed) build(version string) []byte {
	m.t.Helper()
	at := filepath.Join(m.t.TempDir(), "machine-config-daemon")
	cmd := exec.CommandContext(m.t.Context(), "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", at,
		"./cmd/machine-config-daemon")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(at)
	if err != nil {
		m.t.Fatal(err)
	}
	return content
}

func (m managed) binary(content []byte) *join.Binary {
	m.t.Helper()
	b, err := join.NewBinary(content)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

// updates names another binary in the config. The daemon runs the unit that downloads it, and restarts into it: without
// a reboot and without a drain, for which no controller runs here.
func (m managed) updates(first *mcfgv1.MachineConfig) {
	content := m.build("v2")
	l := m.network.Listen(0)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	}()
	names, err := json.Marshal(map[string]any{runtime.GOARCH: map[string]string{"url": "http://" + l.Addr().String() +
		"/v2", "sha512": strings.TrimPrefix(join.HashOf(content), "sha512-")}})
	if err != nil {
		m.t.Fatal(err)
	}
	source := base64.StdEncoding.EncodeToString(names)
	second := m.example(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/machine-config-daemon/binary.json","mode":420,"contents":{"source":"data:;base64,` + source + `"}}]}}`)
	m.kubectl(text(m.t, second), "create", "-f", "-")
	m.kubectl("", "annotate", "--overwrite", "node/born", v1alpha1.DesiredConfigAnnotation+"="+second.Name)
	m.await("the Node reports the second config", func() bool {
		return m.node("state") == "Done" && m.node("currentConfig") == second.Name
	})
	m.await("the new daemon reports", func() bool { return m.report().Version == "v2" })
	if m.host.Boots() != 1 || first.Name == second.Name {
		m.t.Errorf("it took %d boots", m.host.Boots())
	}
}

// handsOver runs the daemon also as its pod runs: in its own namespaces, with the machine's root as a volume.
func (m managed) handsOver() {
	said := func(text string) bool {
		out, err := m.host.Exec(m.t.Context(), "journalctl", "--unit=pod", "--no-pager")
		return err == nil && strings.Contains(out, text)
	}
	m.host.Do("systemd-run", "--quiet", "--unit=pod", "sh", "-c", "cp /usr/local/bin/machine-config-daemon "+
		"/root/daemon-of-pod && exec unshare --mount --fork sh -c 'mkdir -p /run/pod && mount --rbind / /run/pod && "+
		"mkdir -p /root/image/rootfs /root/image/proc && cp /root/daemon-of-pod /root/image/ && mount --bind /proc "+
		"/root/image/proc && mount --rbind /run/pod /root/image/rootfs && exec chroot /root/image /daemon-of-pod "+
		"start --root-mount=/rootfs --node-name=born --metrics='")
	m.await("the pod stands by", func() bool { return said("standing by") })
	m.host.Do("systemctl", "stop", "machine-config-daemon.service")
	m.await("the pod takes over", func() bool { return m.report().Form == "pod" })
	m.host.Do("systemctl", "start", "machine-config-daemon.service")
	m.await("the service serves again", func() bool { return m.report().Form == "service" })
	if m.node("state") != "Done" {
		m.t.Errorf("the node is %s: %s", m.node("state"), m.node("reason"))
	}
}

func (m managed) node(annotation string) string {
	return m.kubectl("", "get", "node/born", "-o",
		`jsonpath={.metadata.annotations.machineconfiguration\.openshift\.io/`+annotation+"}")
}

// report is the daemon's own report; empty before the first one.
func (m managed) report() (r v1alpha1.DaemonReport) {
	text := m.kubectl("", "get", "machineconfignodes", "--ignore-not-found", "-o",
		`jsonpath={.items[*].metadata.annotations.bunsen\.dev/daemon}`)
	if text != "" {
		var err error
		if r, err = v1alpha1.ParseDaemonReport(text); err != nil {
			m.t.Fatal(err)
		}
	}
	return r
}

// await asks again and again.
func (m managed) await(what string, is func() bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 3*time.Minute)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			m.t.Fatalf("waited for: %s; the node is %s: %s; %+v", what, m.node("state"), m.node("reason"), m.report())
		case <-again.C:
		}
	}
	m.t.Log(what)
}

func text(t *testing.T, mc *mcfgv1.MachineConfig) string {
	t.Helper()
	raw, err := json.Marshal(mc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// withoutIdentity makes the first start a first one: presets are for a machine that has no identity yet.
func withoutIdentity(root string) error {
	if err := os.Remove(root + "/etc/machine-id"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("preparing the first start: %w", err)
	}
	return nil
}
