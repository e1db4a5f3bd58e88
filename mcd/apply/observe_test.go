package apply_test

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	var mc mcfgv1.MachineConfig
	mc.Name, mc.ResourceVersion = "rendered-worker-1", "7"
	mc.Spec.KernelArguments = []string{"quiet"}
	mc.Annotations = map[string]string{
		v1alpha1.SecretPathsAnnotation: "/etc/vault/,vault.service",
		v1alpha1.RevisionAnnotation:    "main@sha1:01", v1alpha1.CurrentSecretsAnnotation: "r1",
	}
	text, err := plan.RecordOf(mc)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine()
	if is, err := apply.LoadRecord(m.Host().Files); is != nil || err != nil {
		t.Errorf("a machine without a record has %v, %v", is, err)
	}
	m.Put(host.RecordPath, string(text))
	is, err := apply.LoadRecord(m.Host().Files)
	if err != nil || is.Name != mc.Name || is.ResourceVersion != "" || len(is.Spec.KernelArguments) != 1 {
		t.Errorf("%+v, %v", is, err)
	}
	if named, err := plan.ParseConfig(*is); err != nil || named.Name != mc.Name+"@r1" ||
		named.Config.KernelArguments[0] != "quiet" {
		t.Errorf("%+v, %v", named, err)
	} else if !named.Secrets.Match("/etc/vault/key") || !named.Secrets.Match("vault.service") ||
		len(is.Annotations) != 2 {
		t.Errorf("the record keeps %v, and the marks of secrets are %v", is.Annotations, named.Secrets)
	}
}

func TestADamagedRecordSaysWhatToDo(t *testing.T) {
	m := newMachine()
	for _, text := range []string{`{"metadata"`, "", "null", "{}"} {
		m.Put(host.RecordPath, text)
		if is, err := apply.LoadRecord(m.Host().Files); err == nil || !strings.Contains(err.Error(), host.RecordPath) ||
			!strings.Contains(err.Error(), "remove it") {
			t.Errorf("%q: %+v, %v", text, is, err)
		}
	}
	bad := mcfgv1.MachineConfig{}
	bad.Name, bad.Spec.Config.Raw = "x", []byte(`{"ignition":{"version":"9"}}`)
	if _, err := plan.ParseConfig(bad); err == nil || !strings.Contains(err.Error(), "config x") {
		t.Error(err)
	}
}
