package render_test

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/reconcile/render"
)

// Two configs that are valid alone and not together are both named, with what to do.
func TestAFailedMergeNamesItsLayers(t *testing.T) {
	layer := func(name, clevis string) *mcfgv1.MachineConfig {
		return &mcfgv1.MachineConfig{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
			},
			Spec: mcfgv1.MachineConfigSpec{
				Config: runtime.RawExtension{
					Raw: []byte(
						`{"ignition":{"version":"3.5.0"},"storage":{"luks":[{"name":"root","device":"/dev/a","clevis":` + clevis + `}]}}`),
				},
			},
		}
	}
	_, err := render.Merge("worker", []*mcfgv1.MachineConfig{
		layer("10-worker-tang", `{"tpm2":true}`), layer("20-worker-custom", `{"custom":{"pin":"tpm2","config":"{}"}}`),
	}, render.Defaults{})
	if err == nil {
		t.Fatal("it renders")
	}
	for _, want := range []string{"luks root clevis", "keep custom alone", "set by MachineConfigs 10-worker-tang, " +
		"20-worker-custom"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
