package transpile

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

func TestEveryDamagedByteOfAnEntryIsNoticed(t *testing.T) {
	entry := documentEntry{
		locals:   []local{{"files", []origin.File{{Path: "files/a", Blob: "00+x"}}}},
		findings: []origin.Finding{{Warning: true, Rule: "a-rule", Message: "a \"message\"", At: origin.Pos{File: "a.bu", Line: 2, Column: 3}}},
		fragment: Fragment{
			Pool: "worker", Name: "10-worker-a", Digest: "sha256:0", File: "a.bu",
			MachineConfig: machineConfig("10-worker-a", "worker", mcfgv1.MachineConfigSpec{
				Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"},"x":"<&>\u003c"}`)}, KernelArguments: []string{}, Extensions: []string{"usbguard"}, FIPS: true,
			}),
			Origin: origin.Map{
				Files: []origin.File{{Path: "a.bu", Blob: "00"}},
				At: map[string]origin.Pos{
					"$": {File: "a.bu", Line: 1}, "spec.fips": {}, "$.a \"b\"\n\n": {File: "with\n\nlines", Line: 7, Column: 9},
				},
			},
		},
	}
	sound, err := shelve("key", entry)
	if err != nil {
		t.Fatal(err)
	}
	back, ok := unshelve("key", sound)
	if diff := cmp.Diff(entry, back, cmp.AllowUnexported(documentEntry{}, local{})); !ok || diff != "" {
		t.Fatalf("(-put +got):\n%s", diff)
	}
	for i := range sound {
		damaged := bytes.Clone(sound)
		damaged[i] ^= 1
		if _, ok := unshelve("key", damaged); ok {
			t.Errorf("byte %d: %q is taken for %q", i, damaged[i], sound[i])
		}
		if _, ok := unshelve("key", sound[:i]); ok {
			t.Errorf("the first %d bytes are taken", i)
		}
	}
	if _, ok := unshelve("other", sound); ok {
		t.Error("another key's entry is taken")
	}
}
