package render

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// A mode or a content may come from another MachineConfig, so the merged config is judged, and that of each node.
func TestContentsThatNobodyReviewsAreRefused(t *testing.T) {
	spec := func(file string) mcfgv1.MachineConfigSpec {
		return mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + file + `]}}`)}}
	}
	sealed := `"contents":{"source":"` + machineconfig.SOPSURL("binary", []byte("x")) + `"}`
	content := ofPool("50-a", "worker", spec(`{"path":"/opt/run",`+sealed+`}`))
	mode := ofPool("60-b", "worker", spec(`{"path":"/opt/run","mode":493,`+sealed+`}`))
	if _, err := Merge("worker", []*mcfgv1.MachineConfig{content}, Defaults{}); err != nil {
		t.Errorf("a file that is no program: %v", err)
	}
	_, err := Merge("worker", []*mcfgv1.MachineConfig{content, mode}, Defaults{})
	for _, want := range []string{
		"/opt/run: its content is encrypted", "(set by MachineConfigs 50-a, 60-b)",
		v1alpha1.UnreviewedPathsAnnotation + ": /opt/run` on MachineConfigPool worker",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	allowed := Defaults{}.For(map[string]string{v1alpha1.UnreviewedPathsAnnotation: "/opt/run /etc/cron.d/*"})
	if _, err := Merge("worker", []*mcfgv1.MachineConfig{content, mode}, allowed); err != nil {
		t.Errorf("an allowed path: %v", err)
	}
	invalid := Defaults{}.For(map[string]string{v1alpha1.UnreviewedPathsAnnotation: "opt/run"})
	if _, err := Merge("worker", []*mcfgv1.MachineConfig{content}, invalid); err == nil {
		t.Error("an invalid pattern is accepted")
	}
	own := machineconfig.NodeFacts{Documents: []machineconfig.NodeDocument{
		{Name: "50-own", Spec: spec(`{"path":"/etc/cron.d/x",` + sealed + `}`)},
	}}
	all := []*mcfgv1.MachineConfig{content, tableOf(t, "worker", map[string]machineconfig.NodeFacts{"w1": own})}
	if _, err := Merge("worker", all, Defaults{}); err == nil || !strings.Contains(err.Error(), "/etc/cron.d/x: its") {
		t.Errorf("the config of a node: got %v", err)
	}
	if _, err := Merge("worker", all, allowed); err != nil {
		t.Errorf("the config of a node, allowed: %v", err)
	}
}
