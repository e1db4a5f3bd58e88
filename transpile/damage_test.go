package transpile

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// sample is an entry that uses all that an entry can say.
func sample() documentEntry {
	return documentEntry{
		locals:   []local{{"files", []origin.File{{Path: "files/a", Blob: "00+x"}}}},
		findings: []origin.Finding{{Warning: true, Rule: "a-rule", Message: "a \"message\"", At: origin.Pos{File: "a.bu", Line: 2, Column: 3}}},
		fragment: Fragment{
			Pool: "worker", Name: "10-worker-a", Digest: "sha256:0", File: "a.bu",
			MachineConfig: machineConfig("10-worker-a", "worker", "/etc/a", mcfgv1.MachineConfigSpec{
				Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"},"x":"<&>\u003c"}`)}, KernelArguments: []string{}, Extensions: []string{"usbguard"}, FIPS: true,
				OSImageURL: "image", BaseOSExtensionsContainerImage: "extensions", KernelType: "realtime",
			}),
			Origin: origin.Map{
				Files: []origin.File{{Path: "a.bu", Blob: "00"}},
				At: map[string]origin.Pos{
					"$": {File: "a.bu", Line: 1}, "spec.fips": {}, "$.a \"b\"\n\n": {File: "with\n\nlines", Line: 7000, Column: 9},
				},
			},
		},
	}
}

func TestEveryDamagedByteOfAnEntryIsNoticed(t *testing.T) {
	entry := sample()
	sound := shelve("key", entry)
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
	if _, ok := unshelve("key", (&writer{raw: append(bytes.Clone(sound[32:]), 0)}).seal("key")); ok {
		t.Error("an entry with something behind it is taken")
	}
}

// What another form of entries or a mistake here may leave under a sound digest must not bring a process down.
func TestNoEntryBringsAProcessDown(t *testing.T) {
	sound := shelve("key", sample())[32:]
	for i := range sound {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			odd := bytes.Clone(sound)
			odd[i] = b
			unshelve("key", (&writer{raw: odd}).seal("key"))
		}
		unshelve("key", (&writer{raw: sound[:i]}).seal("key"))
	}
}

// A field that comes with a new release of the API must not be lost on the shelf.
func TestTheSampleSetsEveryFieldOfASpec(t *testing.T) {
	spec := reflect.ValueOf(sample().fragment.MachineConfig.Spec)
	for i := range spec.NumField() {
		if name := spec.Type().Field(i).Name; spec.Field(i).IsZero() {
			t.Errorf("the sample has no %s: write it in writer.spec and reader.spec too", name)
		}
	}
}
