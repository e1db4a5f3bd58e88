package vectors_test

import (
	"encoding/json"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// TestARenderedConfigHasTheSameNameForRendererAndNode: the daemon refuses a config whose content does not have its
// name, also after its way through JSON.
func TestARenderedConfigHasTheSameNameForRendererAndNode(t *testing.T) {
	for says, spec := range map[string]mcfgv1.MachineConfigSpec{
		"an empty config":       {},
		"all fields":            {OSImageURL: "q/i@sha256:1", BaseOSExtensionsContainerImage: "q/e", KernelArguments: []string{"a", "b=c d"}, Extensions: []string{"usbguard"}, FIPS: true, KernelType: "realtime"},
		"an Ignition config":    {Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/é\u2028","mode":420,"contents":{"source":"data:,a%0A<&>"},"append":[]}]}}`)}},
		"numbers and nothing":   {Config: runtime.RawExtension{Raw: []byte(`{"a":null,"b":[1,4294967296,-7],"c":"yes","d":"0x1","e":""}`)}},
		"keys in another order": {Config: runtime.RawExtension{Raw: []byte(`{"storage":{},"ignition":{"version":"3.5.0","config":{}}}`)}},
	} {
		t.Run(says, func(t *testing.T) {
			want, err := render.Name("worker", spec)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			var read mcfgv1.MachineConfigSpec
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			if got, err := machineconfig.RenderedName("worker", read); err != nil || got != want {
				t.Errorf("%s, %v; the renderer names it %s", got, err, want)
			}
		})
	}
}
