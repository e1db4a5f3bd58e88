package ignition

import (
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	service "github.com/bunsen-os/bunsen/mcs/daemon"
	"github.com/bunsen-os/bunsen/mcs/pointer"
	"github.com/bunsen-os/bunsen/mcs/token"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/test/lab"
)

// distribution is the layout of a machine: the unit of the kubelet, its kubeconfig, the path of the daemon, and a file
// whose change needs no reboot. The unit sleeps; the rest is real.
type distribution struct {
	name, unit, kubeconfig, binary, live string
	// restarts is true if a change of the file restarts the unit.
	restarts bool
	// units is the directory of the unit; "" is that of packages.
	units string
	// links are the links of the root, by their path. Directories are below the target of each.
	links map[string]string
	// frozen are the directories that no program can write, and writable those in them that every program can.
	frozen, writable []string
}

const containerdHosts = "/etc/containerd/certs.d/registry.example/hosts.toml"

var distributions = []distribution{
	{name: "kubeadm on Debian", unit: "kubelet.service", kubeconfig: "/etc/kubernetes/kubelet.conf", binary: service.DefaultPath, live: containerdHosts},
	{name: "kubeadm on Flatcar", unit: "kubelet.service", kubeconfig: "/etc/kubernetes/kubelet.conf", binary: "/opt/bin/machine-config-daemon", live: containerdHosts},
	{name: "k3s agent", unit: "k3s-agent.service", kubeconfig: "/var/lib/rancher/k3s/agent/kubelet.kubeconfig", binary: service.DefaultPath, live: "/etc/rancher/k3s/registries.yaml", restarts: true},
	{name: "RKE2 server", unit: "rke2-server.service", kubeconfig: "/var/lib/rancher/rke2/agent/kubelet.kubeconfig", binary: service.DefaultPath, live: "/etc/rancher/rke2/config.yaml.d/10-labels.yaml", restarts: true},
	{ // snapd writes units to /etc, and a revision of a snap is a directory
		name: "MicroK8s", unit: "snap.microk8s.daemon-kubelite.service",
		kubeconfig: "/var/snap/microk8s/current/credentials/kubelet.config", binary: service.DefaultPath,
		live: "/var/snap/microk8s/current/args/certs.d/registry.example/hosts.toml", units: "etc/systemd/system",
		links: map[string]string{"var/snap/microk8s/current": "8511"},
	},
	{ // k0s install writes its unit to /etc
		name: "k0s worker", unit: "k0sworker.service", kubeconfig: "/var/lib/k0s/kubelet.conf",
		binary: service.DefaultPath, live: containerdHosts, units: "etc/systemd/system",
	},
	{
		name: "kubeadm on MicroOS", unit: "kubelet.service", kubeconfig: "/etc/kubernetes/kubelet.conf",
		binary: service.DefaultPath, live: containerdHosts,
		frozen: []string{"/"}, writable: []string{"/etc", "/home", "/opt", "/root", "/srv", "/usr/local", "/var"},
	},
	{
		name: "kubeadm on Fedora CoreOS", unit: "kubelet.service", kubeconfig: "/etc/kubernetes/kubelet.conf",
		binary: service.DefaultPath, live: containerdHosts,
		links: map[string]string{
			"home": "var/home", "mnt": "var/mnt", "opt": "var/opt", "root": "var/roothome", "srv": "var/srv",
			"usr/local": "../var/usrlocal",
		},
		frozen: []string{"/usr"},
	},
}

// make gives a root the layout. What is at the place of a link moves to its target.
func (d distribution) make(root string) error {
	units := d.units
	if units == "" {
		units = "usr/lib/systemd/system"
	}
	problems := []error{put(filepath.Join(root, units, d.unit), "[Service]\nExecStart=/bin/sleep infinity\n"+
		"[Install]\nWantedBy=multi-user.target\n")}
	for _, at := range slices.Sorted(maps.Keys(d.links)) {
		link := filepath.Join(root, at)
		target := filepath.Join(filepath.Dir(link), d.links[at])
		problems = append(problems, os.MkdirAll(filepath.Dir(target), 0o755), os.MkdirAll(filepath.Dir(link), 0o755))
		if _, err := os.Lstat(link); err == nil {
			problems = append(problems, exec.Command("cp", "-a", link, target).Run(), os.RemoveAll(link))
		}
		problems = append(problems, os.MkdirAll(target, 0o755), os.Symlink(d.links[at], link))
	}
	if len(d.frozen) > 0 {
		unit := "[Unit]\nDefaultDependencies=no\nBefore=local-fs-pre.target sysinit.target " +
			"systemd-journal-flush.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
		for _, dir := range slices.Concat(d.writable, d.frozen) {
			if dir != "/" {
				unit += "ExecStart=/bin/mount --bind " + dir + " " + dir + "\n"
			}
		}
		for _, dir := range d.frozen {
			unit += "ExecStart=/bin/mount -o remount,bind,ro " + dir + "\n"
		}
		at := filepath.Join(root, "usr/lib/systemd/system")
		problems = append(problems, put(filepath.Join(at, "layout.service"), unit),
			os.MkdirAll(filepath.Join(at, "sysinit.target.wants"), 0o755),
			os.Symlink("../layout.service", filepath.Join(at, "sysinit.target.wants/layout.service")))
	}
	return errors.Join(problems...)
}

// TestEachDistributionIsManaged installs the daemon on the layout of each distribution, boots it for the first time,
// updates it and reverts the update, without a reboot and without a drain, for which no controller runs here.
func TestEachDistributionIsManaged(t *testing.T) {
	lab.Need(t)
	n := newborn{judge: need(t), speaks: "3.5.0"}
	shared := managed{t: t, plane: newPlane(t), network: lab.NewNetwork(t)}
	binary := shared.binary(shared.build("v1"))
	for i, d := range distributions {
		t.Run(d.name, func(t *testing.T) {
			m := managed{t: t, plane: shared.plane, network: shared.network}
			if i > 0 { // the Node of a machine that is gone
				m.kubectl("", "delete", "--ignore-not-found", "node/born", "machineconfignode/born")
				m.kubectl(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"born"}}`, "create", "-f", "-")
			}
			first, second := layout(t, d.name, d.unit, ""), layout(t, d.name, d.unit, d.live)
			m.kubectl(text(t, first), "create", "-f", "-")
			m.kubectl(text(t, second), "create", "-f", "-")
			s := newServer(t)
			s.daemons = service.Binaries{binary}
			if err := s.pools.Set("worker", first); err != nil {
				t.Fatal(err)
			}
			tok, kept := s.grant(token.Options{Pool: "worker", Node: "born", TTL: time.Hour})
			s.kept[kept.Name] = kept
			s.start()
			m.host = lab.Start(t, lab.Options{Name: "born", Network: m.network, Prepare: func(root string) error {
				err := errors.Join(n.prepare(root), withoutIdentity(root), d.make(root))
				if err != nil {
					return err
				}
				log, err := n.start(t, root, s.pointer(tok.String(), func(p *pointer.Pointer) {
					p.Daemon = &pointer.Daemon{Arch: runtime.GOARCH, Path: d.binary}
				}))
				if err != nil {
					t.Log(log)
				}
				return err
			}})
			if got := m.host.Sh("systemctl is-active " + d.unit + " machine-config-daemon.service " +
				"machine-config-daemon-firstboot.service; systemctl show --property=After " + d.unit); strings.Count(
				got, "active\n") != 3 || !strings.Contains(got, "machine-config-daemon-firstboot.service") {
				t.Errorf("after the first boot: %s", got)
			}
			for _, dir := range d.frozen {
				if _, err := m.host.Exec(t.Context(), "touch", filepath.Join(dir, "frozen")); err == nil {
					t.Errorf("%s is writable", dir)
				}
			}
			m.joins(d.kubeconfig)
			m.await("the Node reports its first config", func() bool {
				return m.node("state") == "Done" && m.node("currentConfig") == first.Name
			})
			pid := func() string { return m.host.Do("systemctl", "show", "--property=MainPID", d.unit) }
			before := pid()
			m.assign(second)
			if got := m.host.Do("cat", d.live); got != "text\n" || (pid() != before) != d.restarts {
				t.Errorf("%s is %q; %s was %s", d.live, got, pid(), before)
			}
			before = pid()
			m.assign(first)
			if _, err := m.host.Exec(t.Context(), "test", "!", "-e", d.live); err != nil ||
				(pid() != before) != d.restarts {
				t.Errorf("after the revert: %v; %s was %s", err, pid(), before)
			}
			if m.host.Boots() != 1 {
				t.Errorf("it took %d boots", m.host.Boots())
			}
		})
	}
}

// assign gives the node a config, and waits until it has it.
func (m managed) assign(to *mcfgv1.MachineConfig) {
	m.t.Helper()
	m.kubectl("", "annotate", "--overwrite", "node/born", v1alpha1.DesiredConfigAnnotation+"="+to.Name)
	m.await("the Node reports "+to.Name, func() bool {
		return m.node("state") == "Done" && m.node("currentConfig") == to.Name
	})
}

// layout is a rendered config that enables a unit, and has a file if its path is set.
func layout(t *testing.T, name, unit, file string) *mcfgv1.MachineConfig {
	t.Helper()
	files := `{"path":"/etc/layout","mode":420,"contents":{"source":"data:;base64,` +
		base64.StdEncoding.EncodeToString([]byte(name)) + `"}}`
	if file != "" {
		files += `,{"path":"` + file + `","mode":420,"contents":{"source":"data:,text%0A"}}`
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:   "50-layout",
		Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
	}}
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + files +
		`]},"systemd":{"units":[{"name":"` + unit + `","enabled":true}]}}`)
	r, err := render.Merge("worker", []*mcfgv1.MachineConfig{mc}, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return &mcfgv1.MachineConfig{TypeMeta: metav1.TypeMeta{
		APIVersion: mcfgv1.GroupVersion.String(),
		Kind:       "MachineConfig",
	}, ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
}
