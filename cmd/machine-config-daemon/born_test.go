package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/once"
	"github.com/bunsen-os/bunsen/mcs"
)

// ignite does what Ignition does with the files of a config that the server composed; withhold: for a machine that came
// with a token of no node.
func ignite(t *testing.T, m *hosttest.Machine, rendered *mcfgv1.MachineConfig, withhold bool) {
	t.Helper()
	body, err := mcs.Compose(mcs.Input{Pool: "worker", Rendered: rendered, Withhold: withhold}, mcs.Newest)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body.Head), secretText) == withhold {
		t.Fatalf("what is served does not fit the token: %s", body.Head)
	}
	var config ign.Config
	if err := json.Unmarshal(body.Head, &config); err != nil {
		t.Fatal(err)
	}
	for _, f := range config.Storage.Files {
		contents, err := dataurl.DecodeString(*f.Contents.Source)
		if err != nil {
			t.Fatal(err)
		}
		m.Put(f.Path, string(contents.Data))
	}
}

// secretText is what the config of the test has that few should read.
const secretText = "hunter2"

// aBornMachineJoins goes the whole way of a new machine: what the server served is on its disk; its OS is brought to
// the config before it joins; then its Node says what it was born with. What was withheld comes after that, by the
// node's own rights, and the node is done only then.
func aBornMachineJoins(t *testing.T, p plane) {
	t.Helper()
	rendered := &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "rendered-worker-0123456789abcdef0123456789abcdef",
			Annotations: map[string]string{v1alpha1.SecretPathsAnnotation: "/var/lib/kubelet/"},
		},
	}
	rendered.Spec.KernelArguments = []string{"quiet"}
	rendered.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/motd","mode":420,"contents":{"source":"data:,hello"}},{"path":"/var/lib/kubelet/config.json","mode":420,"contents":{"source":"data:,` + secretText + `"}}]}}`)
	text, err := json.Marshal(rendered)
	if err != nil {
		t.Fatal(err)
	}
	p.kubectl(t, string(text), "create", "-f", "-")
	for name, withhold := range map[string]bool{"worker-8": true, "worker-9": false} {
		t.Run(name, func(t *testing.T) { joins(t, p, name, rendered, withhold) })
	}
}

func joins(t *testing.T, p plane, name string, rendered *mcfgv1.MachineConfig, withhold bool) {
	t.Helper()
	p.kubectl(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+name+`"}}`, "create", "-f", "-")
	m := hosttest.NewMachine()
	ignite(t, m, rendered, withhold)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, want := range []apply.End{apply.Rebooting, apply.New, apply.Nothing} {
		if done, err := once.FirstBoot(t.Context(), apply.Runner{Host: m.Host()}, nil); err != nil || done.End != want {
			t.Fatalf("first boot ended as %+v, %v, not %s", done, err, want)
		}
	}
	if is, err := m.Host().Files.Stat(once.EncapsulatedPath); err != nil || is.Kind != host.Absent || len(m.Log) != 1 {
		t.Fatalf("%v %v %q", is, err, m.Log)
	}

	config := rest.CopyConfig(p.admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:" + name,
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	cluster := kube.NewConnection(name, func() (*rest.Config, error) { return config, nil })
	a := agent.New(agent.Config{
		Node: name, Cluster: cluster, Host: m.Host(), Log: log,
		Events: cluster.NewRecorder(t.Context(), log),
	})
	if o := a.Sync(t.Context()); o.Err != nil {
		t.Fatal(o.Err)
	}
	node, err := nodesOf(t, p.admin).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		v1alpha1.CurrentConfigAnnotation: rendered.Name, v1alpha1.DesiredConfigAnnotation: rendered.Name,
		v1alpha1.FirstPivotConfigAnnotation: rendered.Name,
		v1alpha1.StateAnnotation:            v1alpha1.StateDone, v1alpha1.ReasonAnnotation: "",
		v1alpha1.WithheldAnnotation: "",
	} {
		if is := node.GetAnnotations()[key]; is != want {
			t.Errorf("%s is %q, not %q", key, is, want)
		}
	}
	if text, err := m.Host().Files.Read("/var/lib/kubelet/config.json"); err != nil || string(text) != secretText {
		t.Errorf("the machine has %q, %v", text, err)
	}
}
