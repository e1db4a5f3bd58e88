package kube

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestWhoOwnsAMachineConfig: that of another GitSource is not made through the API.
func TestWhoOwnsAMachineConfig(t *testing.T) {
	mc := func(source, files string) *mcfgv1.MachineConfig {
		return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name: "60-worker-v", Labels: map[string]string{v1alpha1.SourceLabel: source},
			Annotations: map[string]string{v1alpha1.FileAnnotation: files},
		}}
	}
	const files = `[{"file":"base/60-v.bu"},{"file":"pools/worker/60-v.bu"}]`
	for sentence, tc := range map[string]struct {
		of   *mcfgv1.MachineConfig
		want string
	}{
		"it is gone":                   {nil, ""},
		"a user created it":            {mc("", ""), ""},
		"another source has its files": {mc("team", files), "base/60-v.bu, pools/worker/60-v.bu of GitSource team"},
		"a user edited it":             {mc("team", ""), "MachineConfig 60-worker-v of GitSource team"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := ownerOf(tc.of); got != tc.want {
				t.Errorf("the owner is %q, want %q", got, tc.want)
			}
		})
	}
}
