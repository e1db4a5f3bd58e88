package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// canary is in the pull secret only.
const canary = "Zm9vOmNhbmFyeS1odXNo"

const registryPath = "/etc/docker/certs.d/registry.example.com:5000/ca.crt"

// certificate returns a new certificate as PEM.
func certificate(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return trustfile.PEM(c)
}

func ca(at, contents string) v1alpha1.TrustFile {
	return v1alpha1.TrustFile{
		Path: at, Mode: 0o644, Contents: contents, From: "bunsen-system/x",
		Expires: start.AddDate(1, 0, 0),
	}
}

func pullSecret() v1alpha1.TrustFile {
	return v1alpha1.TrustFile{
		Path: trustfile.PullSecretPath, Mode: 0o600, Secret: true, From: "Secret bunsen-secrets/pull", Version: "1",
		Contents: `{"auths":{"registry.example.com":{"auth":"` + canary + `"}}}`,
	}
}

func answerOf(files ...v1alpha1.TrustFile) *v1alpha1.NodeTrust {
	text, _ := json.Marshal(files)
	sum := sha256.Sum256(text)
	return &v1alpha1.NodeTrust{Revision: hex.EncodeToString(sum[:]), Files: files}
}

// server is a Source.
type server struct {
	answer *v1alpha1.NodeTrust
	err    error
}

func (s *server) Trust(_ context.Context, known string) (*v1alpha1.NodeTrust, error) {
	if s.err != nil || s.answer.Revision == known {
		return nil, s.err
	}
	return s.answer, nil
}

// rig is a machine with its daemon.
type rig struct {
	t    *testing.T
	m    *hosttest.Machine
	from *server
	s    *Syncer
	log  strings.Builder
	now  time.Time
	// rules are those of the cluster; rulesErr is why they cannot be read.
	rules    disruption.Policy
	rulesErr error
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, m: hosttest.NewMachine(), from: &server{answer: answerOf()}, now: start,
		rules: disruption.Default(),
	}
	r.m.Withdraw("it is a plain host")
	r.config(`{"ignition":{"version":"3.5.0"}}`)
	r.start(r.m.Host())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// start is a daemon that starts.
func (r *rig) start(h host.Host) {
	r.s = NewSyncer(h, r.from, 0, slog.New(slog.NewTextHandler(&r.log, nil)))
}

// config puts a config in force, without its files.
func (r *rig) config(ignition string) {
	text, err := plan.RecordOf(mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1"},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(ignition)}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.m.Put(host.RecordPath, string(text))
}

// sync has the daemon ask and write, later than before.
func (r *rig) sync() v1alpha1.TrustReport {
	r.t.Helper()
	r.s.ask(r.t.Context())
	return r.write()
}

func (r *rig) write() (report v1alpha1.TrustReport) {
	r.t.Helper()
	r.now = r.now.Add(15 * time.Minute)
	turn := Turn{
		Rules: func(context.Context) (plan.Rules, error) { return plan.Rules{Policy: r.rules}, r.rulesErr },
		Now:   r.now,
	}
	if !r.s.Sync(r.t.Context(), turn) {
		r.t.Error("an update is under way")
	}
	if text := r.s.Report(); text != "" {
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			r.t.Fatal(err)
		}
	}
	if strings.Contains(r.s.Report()+r.log.String(), canary) {
		r.t.Error("the pull secret is in a report or a log")
	}
	return report
}

// has checks the files of the machine; "" is a path without a file.
func (r *rig) has(because string, files map[string]string) {
	r.t.Helper()
	for p, want := range files {
		is, err := r.m.Host().Files.Read(p)
		if string(is) != want || (err == nil) != (want != "") {
			r.t.Errorf("%s: %s has %.40q, %v", because, p, is, err)
		}
	}
}

func (r *rig) ran(because string, want ...string) {
	r.t.Helper()
	if !slices.Equal(r.m.Log, want) {
		r.t.Errorf("%s: the machine did %q, want %q", because, r.m.Log, want)
	}
	r.m.Log = nil
}

// TestWhatTheServerSendsIsOnTheMachine has what comes, changes and goes; the machine then has what it had before.
func TestWhatTheServerSendsIsOnTheMachine(t *testing.T) {
	r := newRig(t)
	a, b := certificate(t), certificate(t)
	r.m.Put(trustfile.KubeletCAPath, "of the image")
	r.m.Put("/etc/systemd/system/crio.service", "[Service]\n")
	r.sync()
	before := treeOf(r.m)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a), ca(registryPath, a), ca(trustfile.UserCAPath, a),
		pullSecret())
	report := r.sync()
	r.has("all is new", map[string]string{
		trustfile.KubeletCAPath: a, registryPath: a, trustfile.UserCAPath: a,
		trustfile.PullSecretPath: pullSecret().Contents,
	})
	r.ran("all is new", "restart crio.service")
	if report.Files != 4 || report.Revision != r.from.answer.Revision || report.Failed != "" {
		t.Errorf("the report is %+v", report)
	}
	for p, mode := range map[string]uint32{
		trustfile.PullSecretPath: 0o600, RecordPath: 0o600,
		registryPath: 0o644,
	} {
		if is, err := r.m.Host().Files.Stat(p); err != nil || is.Mode != mode {
			t.Errorf("%s is %v %v", p, is, err)
		}
	}
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, b))
	r.sync()
	r.has("one changes, the others go", map[string]string{
		trustfile.KubeletCAPath: b, registryPath: "",
		trustfile.UserCAPath: "", trustfile.PullSecretPath: "",
	})
	r.from.answer = answerOf()
	if report := r.sync(); r.s.Report() != "" {
		t.Errorf("the report is %+v", report)
	}
	if after := treeOf(r.m); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
}

// treeOf is a machine's disk without the daemon's state, and without empty directories above files of trust.
func treeOf(m *hosttest.Machine) string {
	var b strings.Builder
	for line := range strings.Lines(m.Tree()) {
		if !strings.HasPrefix(line, host.StateDir) && !strings.Contains(line, " dir 0") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestTheMachineKeepsWhatItHas has the cases in which an answer changes nothing.
func TestTheMachineKeepsWhatItHas(t *testing.T) {
	a, b := certificate(t), certificate(t)
	good := ca(trustfile.KubeletCAPath, a)
	key := "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n"
	wide := pullSecret()
	wide.Mode = 0o644
	public := pullSecret()
	public.Secret = false
	for because, files := range map[string][]v1alpha1.TrustFile{
		"another path":                    {ca("/etc/shadow", b)},
		"a path that leads elsewhere":     {ca("/etc/docker/certs.d/../../shadow/ca.crt", b)},
		"a path of another registry file": {ca("/etc/docker/certs.d/registry.example.com/hosts.toml", b)},
		"a registry that is a directory":  {ca("/etc/docker/certs.d/../ca.crt", b)},
		"an executable":                   {{Path: trustfile.KubeletCAPath, Mode: 0o755, Contents: b, From: "n/o"}},
		"setuid":                          {{Path: trustfile.KubeletCAPath, Mode: 0o4644, Contents: b, From: "n/o"}},
		"a negative mode":                 {{Path: trustfile.KubeletCAPath, Mode: -1, Contents: b, From: "n/o"}},
		"a private key":                   {ca(trustfile.KubeletCAPath, b+key)},
		"no certificate":                  {ca(trustfile.KubeletCAPath, "hello")},
		"an empty file":                   {ca(trustfile.KubeletCAPath, "")},
		"a large file":                    {ca(trustfile.KubeletCAPath, b+strings.Repeat("#\n", trustfile.MaxBytes/2))},
		"a path twice":                    {ca(trustfile.KubeletCAPath, b), ca(trustfile.KubeletCAPath, a)},
		"an object with a line end":       {{Path: trustfile.KubeletCAPath, Mode: 0o644, Contents: b, From: "n/o\nx"}},
		"a pull secret that all may read": {wide},
		"a pull secret that is public":    {public},
		"a pull secret without JSON":      {{Path: trustfile.PullSecretPath, Mode: 0o600, Secret: true, Contents: canary, From: "Secret n/o"}},
	} {
		r := newRig(t)
		r.from.answer = answerOf(good)
		r.sync()
		r.from.answer = answerOf(files...)
		r.sync()
		r.has(because, map[string]string{trustfile.KubeletCAPath: a})
		if !strings.Contains(r.log.String(), "cannot read what the node trusts") ||
			strings.Contains(r.log.String(), "aHVzaA") {
			t.Errorf("%s: the log has %s", because, r.log.String())
		}
	}
}

// TestWithoutAServerTheMachineWorksFromItsCopy restarts the daemon while no server answers, after another program
// changed the files.
func TestWithoutAServerTheMachineWorksFromItsCopy(t *testing.T) {
	r := newRig(t)
	a := certificate(t)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a), pullSecret())
	r.sync()
	r.from.err = errors.New("connection refused")
	r.rulesErr = errors.New("connection refused")
	r.start(r.m.Host())
	r.m.Put(trustfile.KubeletCAPath, "changed")
	r.m.Put(trustfile.PullSecretPath, "changed")
	r.sync()
	r.has("restored", map[string]string{trustfile.KubeletCAPath: a, trustfile.PullSecretPath: pullSecret().Contents})
	r.from.err = nil
	r.from.answer = &v1alpha1.NodeTrust{Revision: answerOf().Revision, Keep: []string{"Secret bunsen-secrets/*"}}
	r.sync()
	r.has("the server does not know the Secret", map[string]string{
		trustfile.KubeletCAPath:  "",
		trustfile.PullSecretPath: pullSecret().Contents,
	})
}

// TestAPathOfTheConfigBelongsToGit lets a config take a path and give it back.
func TestAPathOfTheConfigBelongsToGit(t *testing.T) {
	r := newRig(t)
	a, b := certificate(t), certificate(t)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a), ca(registryPath, a))
	r.sync()
	r.config(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"` + trustfile.KubeletCAPath +
		`","overwrite":true,"contents":{"source":"data:,git"}}]}}`)
	r.m.Put(trustfile.KubeletCAPath, "git")
	report := r.write()
	r.has("the config names the path", map[string]string{trustfile.KubeletCAPath: "git", registryPath: a})
	if len(report.Conflicts) != 1 || report.Conflicts[0].Path != trustfile.KubeletCAPath || report.Files != 1 {
		t.Errorf("the report is %+v", report)
	}
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, b))
	r.sync()
	r.has("the server sends another one", map[string]string{trustfile.KubeletCAPath: "git", registryPath: ""})
	r.from.answer = answerOf()
	r.sync()
	r.has("the server sends none", map[string]string{trustfile.KubeletCAPath: "git"})
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, b))
	r.config(`{"ignition":{"version":"3.5.0"}}`)
	if report := r.sync(); len(report.Conflicts) != 0 {
		t.Errorf("the report is %+v", report)
	}
	r.has("the config does not name it any more", map[string]string{trustfile.KubeletCAPath: b})
	for because, ignition := range map[string]string{
		"a link above it":   `"links":[{"path":"/etc/docker/certs.d","target":"/etc/other","overwrite":true}]`,
		"a file above it":   `"files":[{"path":"/etc/docker","contents":{"source":"data:,git"}}]`,
		"a file below it":   `"files":[{"path":"` + registryPath + `/x","contents":{"source":"data:,git"}}]`,
		"a directory there": `"directories":[{"path":"` + registryPath + `"}]`,
	} {
		r := newRig(t)
		r.config(`{"ignition":{"version":"3.5.0"},"storage":{` + ignition + `}}`)
		r.from.answer = answerOf(ca(registryPath, a))
		if report := r.sync(); len(report.Conflicts) != 1 {
			t.Errorf("%s: the report is %+v", because, report)
		}
		r.has(because, map[string]string{registryPath: ""})
	}
}

// TestWithoutARecordTheDaemonWaits: a path may belong to the config that the machine booted with.
func TestWithoutARecordTheDaemonWaits(t *testing.T) {
	r := newRig(t)
	if err := r.m.Host().Files.Remove(host.RecordPath); err != nil {
		t.Fatal(err)
	}
	a := certificate(t)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a))
	r.sync()
	r.has("it may have a config", map[string]string{trustfile.KubeletCAPath: ""})
	turn := Turn{
		Unconfigured: true, Rules: func(context.Context) (plan.Rules, error) { return plan.Rules{}, nil },
		Now: r.now,
	}
	r.s.Sync(t.Context(), turn)
	r.has("it has none", map[string]string{trustfile.KubeletCAPath: a})
}

// TestPlacesOfAMachine has the files of each operating system and container runtime.
func TestPlacesOfAMachine(t *testing.T) {
	a, b := certificate(t), certificate(t)
	hash := func(text string) string {
		all, err := trustfile.Certificates([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(all[0].Raw)
		return hex.EncodeToString(sum[:8])
	}
	for _, c := range []struct {
		because, release string
		there            []string
		files            map[string]string
		ran              []string
	}{
		{"an unknown system", "ID=x", nil, map[string]string{trustfile.UserCAPath: a + b, "/etc/containerd/certs.d/r.example.com/ca.crt": ""}, nil},
		{"CoreOS", "ID=fedora\nVARIANT_ID=coreos", []string{"/usr/lib/systemd/system/crio.service", "/usr/lib/systemd/system/coreos-update-ca-trust.service"}, map[string]string{trustfile.UserCAPath: a + b}, []string{"run update-ca-trust", "restart coreos-update-ca-trust.service", "restart crio.service"}},
		{"Debian with containerd", "ID=debian", []string{
			"/usr/lib/systemd/system/containerd.service",
			"/etc/containerd/certs.d/x/hosts.toml",
		}, map[string]string{
			trustfile.UserCAPath: "",
			"/usr/local/share/ca-certificates/openshift-config-user-ca-bundle-" + hash(a) + ".crt": a,
			"/usr/local/share/ca-certificates/openshift-config-user-ca-bundle-" + hash(b) + ".crt": b,
			"/etc/docker/certs.d/r.example.com/ca.crt":                                             a,
			"/etc/containerd/certs.d/r.example.com/ca.crt":                                         a,
			"/etc/containers/certs.d/r.example.com/ca.crt":                                         "",
		}, []string{"run update-ca-certificates", "restart containerd.service"}},
		{"Flatcar", "ID=flatcar", nil, map[string]string{"/etc/ssl/certs/openshift-config-user-ca-bundle-" + hash(a) + ".pem": a}, []string{"run update-ca-certificates"}},
		{"MicroOS", "ID=opensuse-microos", nil, map[string]string{"/etc/pki/trust/anchors/openshift-config-user-ca-bundle.crt": a + b}, []string{"run update-ca-certificates"}},
		{"a directory of podman", "ID=fedora", []string{"/etc/containers/certs.d/r.example.com/client.cert"}, map[string]string{"/etc/containers/certs.d/r.example.com/ca.crt": a}, []string{"run update-ca-trust"}},
		{"containerd with _default", "ID=x", []string{"/etc/containerd/certs.d/_default/hosts.toml"}, map[string]string{"/etc/containerd/certs.d/r.example.com/ca.crt": ""}, nil},
		{"containerd with _default and a directory of the registry", "ID=x", []string{"/etc/containerd/certs.d/_default/hosts.toml", "/etc/containerd/certs.d/r.example.com/hosts.toml"}, map[string]string{"/etc/containerd/certs.d/r.example.com/ca.crt": a}, nil},
	} {
		r := newRig(t)
		r.m.Put("/etc/os-release", c.release+"\n")
		for _, p := range c.there {
			r.m.Put(p, "there")
		}
		before := treeOf(r.m)
		r.from.answer = answerOf(ca("/etc/docker/certs.d/r.example.com/ca.crt", a), ca(trustfile.UserCAPath, a+b))
		if report := r.sync(); len(report.Blocked)+len(report.Conflicts) > 0 || report.Failed != "" {
			t.Errorf("%s: %+v", c.because, report)
		}
		r.has(c.because, c.files)
		r.ran(c.because, c.ran...)
		r.from.answer = answerOf()
		r.sync()
		r.ran(c.because+", removed", c.ran...)
		if after := treeOf(r.m); after != before {
			t.Errorf("%s: the machine was\n%s\nand is\n%s", c.because, before, after)
		}
	}
}

// TestARuleOfTheClusterNamesTheAction has rules of users, and those that this package does not follow.
func TestARuleOfTheClusterNamesTheAction(t *testing.T) {
	for because, c := range map[string]struct {
		rule disruption.Rule
		ran  []string
	}{
		"a restart":                     {disruption.Rule{Name: trustfile.KubeletCAPath, Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "kubelet.service"}}}, []string{"restart kubelet.service"}},
		"a reload of a missing service": {disruption.Rule{Name: trustfile.KubeletCAPath, Actions: []disruption.Action{{Type: disruption.ActionReload, Service: "x.service"}}}, nil},
		"a drain of a directory above":  {disruption.Rule{Name: "/etc", Actions: []disruption.Action{{Type: disruption.ActionDrain}, {Type: disruption.ActionRestart, Service: "kubelet.service"}}}, nil},
		"a reboot":                      {disruption.Rule{Name: trustfile.KubeletCAPath, Actions: []disruption.Action{{Type: disruption.ActionReboot}}}, nil},
	} {
		r := newRig(t)
		r.m.Put("/etc/systemd/system/kubelet.service", "[Service]\n")
		r.rules.Files = append(r.rules.Files, c.rule)
		r.from.answer = answerOf(ca(trustfile.KubeletCAPath, certificate(t)))
		r.sync()
		r.ran(because, c.ran...)
	}
}

// TestAFailureChangesNothing breaks the trust store, and later repairs it.
func TestAFailureChangesNothing(t *testing.T) {
	r := newRig(t)
	r.m.Put("/etc/os-release", "ID=fedora\n")
	a, b := certificate(t), certificate(t)
	r.from.answer = answerOf(ca(trustfile.UserCAPath, a))
	r.sync()
	r.m.Broken["update-ca-trust"] = true
	first := r.from.answer.Revision
	r.from.answer = answerOf(ca(trustfile.UserCAPath, b), ca(trustfile.KubeletCAPath, b))
	if report := r.sync(); !strings.Contains(report.Failed, "update-ca-trust") || report.Revision != first {
		t.Errorf("the report is %+v", report)
	}
	r.has("rolled back", map[string]string{trustfile.UserCAPath: a, trustfile.KubeletCAPath: ""})
	r.m.Log = nil
	r.s.Sync(t.Context(), Turn{
		Rules: func(context.Context) (plan.Rules, error) { return plan.Rules{}, nil },
		Now:   r.now.Add(time.Second),
	})
	r.ran("a retry comes later")
	r.m.Broken["update-ca-trust"] = false
	if report := r.write(); report.Failed != "" {
		t.Errorf("the report is %+v", report)
	}
	r.has("retried", map[string]string{trustfile.UserCAPath: b, trustfile.KubeletCAPath: b})
}

// TestAnotherProgramDoesNotWinAndIsReported writes a file again and again.
func TestAnotherProgramDoesNotWinAndIsReported(t *testing.T) {
	r := newRig(t)
	a := certificate(t)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a))
	r.sync()
	for i := range maxRestored + 1 {
		r.m.Put(trustfile.KubeletCAPath, fmt.Sprint("changed ", i))
		r.now = r.now.Add(-15*time.Minute + time.Second)
		report := r.write()
		if restored := report.Failed == ""; restored != (i < maxRestored) {
			t.Errorf("%d: the report is %+v", i, report)
		}
	}
	if !strings.Contains(r.s.Report(), "another program writes them") {
		t.Error(r.s.Report())
	}
	r.write()
	r.has("later", map[string]string{trustfile.KubeletCAPath: a})
}

// TestAnUnsafePathBlocksItselfOnly has a link of another user in place of a registry's directory.
func TestAnUnsafePathBlocksItselfOnly(t *testing.T) {
	r := newRig(t)
	a := certificate(t)
	r.m.Put("/etc/docker/certs.d", "a file of a user")
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a), ca(registryPath, a))
	report := r.sync()
	r.has("blocked", map[string]string{trustfile.KubeletCAPath: a, "/etc/docker/certs.d": "a file of a user"})
	if len(report.Blocked) != 1 || report.Blocked[0].Path != registryPath || report.Files != 1 {
		t.Errorf("the report is %+v", report)
	}
}

// unsafeBelow are files of which the daemon opens none below a directory, as if a group may write to it.
type unsafeBelow struct {
	host.Files
	dir string
}

func (u unsafeBelow) Stat(p string) (host.Entry, error) {
	if strings.HasPrefix(p, u.dir+"/") {
		return host.Entry{}, &host.UnsafePathError{Path: p, Component: u.dir, Why: "a group may write to it", Fix: "chmod"}
	}
	return u.Files.Stat(p)
}

// TestAnUnsafeDirectoryBlocksItselfOnly has refusals for a directory and for the file in it.
func TestAnUnsafeDirectoryBlocksItselfOnly(t *testing.T) {
	r := newRig(t)
	a := certificate(t)
	r.m.Put("/etc/docker/certs.d/of-the-user", "x")
	h := r.m.Host()
	h.Files = unsafeBelow{h.Files, "/etc/docker/certs.d"}
	r.start(h)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a), ca(registryPath, a))
	report := r.sync()
	r.has("blocked", map[string]string{trustfile.KubeletCAPath: a, registryPath: ""})
	if len(report.Blocked) != 1 || report.Blocked[0].Path != registryPath || report.Files != 1 {
		t.Errorf("the report is %+v", report)
	}
}

// TestAMachineThatCannotBeReadIsReported has a record of the config in force that the daemon cannot read, for a while.
func TestAMachineThatCannotBeReadIsReported(t *testing.T) {
	r := newRig(t)
	a := certificate(t)
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, a))
	first := r.sync().Revision
	r.m.Put(host.RecordPath, "{")
	r.from.answer = answerOf(ca(trustfile.KubeletCAPath, certificate(t)))
	if report := r.sync(); !strings.Contains(report.Failed, host.RecordPath) || report.Revision != first ||
		report.Files != 1 {
		t.Errorf("the report is %+v", report)
	}
	r.has("as before", map[string]string{trustfile.KubeletCAPath: a})
	r.config(`{"ignition":{"version":"3.5.0"}}`)
	if report := r.sync(); report.Failed != "" || report.Revision == first {
		t.Errorf("the report is %+v", report)
	}
}

// TestOneDirectoryWithTwoNames has a link from the directory of Docker to that of podman, made before the first file,
// or later in place of the directory.
func TestOneDirectoryWithTwoNames(t *testing.T) {
	for _, later := range []bool{false, true} {
		r := newRig(t)
		a, b := certificate(t), certificate(t)
		second := strings.Replace(registryPath, "docker", "containers", 1)
		r.m.Put(path.Dir(second)+"/of-the-user", "x")
		files := r.m.Host().Files
		link := func() {
			for _, p := range []string{registryPath, path.Dir(registryPath), "/etc/docker/certs.d"} {
				if err := files.Remove(p); err != nil {
					t.Fatal(err)
				}
			}
			to := host.Entry{Kind: host.Link, Target: "../containers/certs.d"}
			if err := files.Link("/etc/docker/certs.d", to); err != nil {
				t.Fatal(err)
			}
		}
		r.m.Put("/etc/docker/certs.d/x", "")
		if err := files.Remove("/etc/docker/certs.d/x"); err != nil {
			t.Fatal(err)
		}
		if !later {
			link()
		}
		for i, text := range []string{a, a, b} {
			if later && i == 1 {
				link()
			}
			r.from.answer = answerOf(ca(registryPath, text))
			if report := r.sync(); report.Failed != "" || len(report.Blocked) > 0 {
				t.Errorf("%t, %d: the report is %+v", later, i, report)
			}
			r.has(fmt.Sprint("written ", i), map[string]string{registryPath: text, second: text})
		}
		r.from.answer = answerOf()
		r.sync()
		r.has("removed", map[string]string{registryPath: "", second: "", path.Dir(second) + "/of-the-user": "x"})
	}
}

// TestCertificatesNearTheirEndAreReported has one that ends soon and one that has ended.
func TestCertificatesNearTheirEndAreReported(t *testing.T) {
	r := newRig(t)
	soon, ended, later := ca(trustfile.KubeletCAPath, certificate(t)), ca(registryPath, certificate(t)),
		ca(trustfile.UserCAPath, certificate(t))
	soon.Expires, ended.Expires = start.AddDate(0, 0, 10), start.AddDate(0, 0, -1)
	r.from.answer = answerOf(soon, ended, later)
	report := r.sync()
	if len(report.Expiring) != 2 || report.Expiring[0].Path != registryPath ||
		report.Expiring[1].Path != trustfile.KubeletCAPath {
		t.Errorf("the report is %+v", report)
	}
}

// TestAfterACrashAnywhereTheMachineIsAsWithoutIt disturbs the daemon after each of its changes, while files come,
// change and go, and starts another one.
func TestAfterACrashAnywhereTheMachineIsAsWithoutIt(t *testing.T) {
	a, b := certificate(t), certificate(t)
	answers := []*v1alpha1.NodeTrust{
		answerOf(ca(trustfile.KubeletCAPath, a), ca(registryPath, a), ca(trustfile.UserCAPath, a), pullSecret()),
		answerOf(ca(trustfile.KubeletCAPath, b), ca("/etc/docker/certs.d/other.example.com/ca.crt", a),
			ca(trustfile.UserCAPath, b)),
		answerOf(),
	}
	prepare := func(t *testing.T, step int) *rig {
		r := newRig(t)
		r.m.Put("/etc/os-release", "ID=fedora\n")
		r.m.Put("/etc/systemd/system/crio.service", "[Service]\n")
		r.m.Put(trustfile.KubeletCAPath, "of the image")
		for _, answer := range answers[:step] {
			r.from.answer = answer
			r.sync()
		}
		r.from.answer = answers[step]
		return r
	}
	crashes := 0
	for step := range answers {
		want := prepare(t, step)
		want.sync()
		for _, cut := range []bool{false, true} {
			for n := 0; ; n++ {
				r := prepare(t, step)
				h, counter := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(n))
				r.start(h)
				r.s.ask(t.Context())
				r.s.Sync(t.Context(), Turn{Rules: func(context.Context) (plan.Rules, error) {
					return plan.Rules{Policy: r.rules}, nil
				}, Now: r.now})
				if counter.N <= n {
					break
				}
				crashes++
				if cut {
					r.m.PowerCut(mathrand.New(mathrand.NewPCG(uint64(n), 3)))
				}
				h = r.m.Host()
				if _, err := (apply.Runner{Host: h}).Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.start(h)
				r.sync()
				if is := r.m.Tree(); is != want.m.Tree() {
					t.Fatalf("answer %d, %d changes, power cut %t: the machine is\n%s\nand not\n%s", step, n, cut, is,
						want.m.Tree())
				}
			}
		}
	}
	t.Logf("%d crashes, each with the same outcome", crashes)
}
