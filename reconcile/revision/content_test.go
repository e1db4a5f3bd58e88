package revision_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

func config(name, role, ignition string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "machineconfiguration.openshift.io/v1", Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.RoleLabel: role},
			Annotations: map[string]string{v1alpha1.FileAnnotation: `[{"file":"a.bu","blob":"1"}]`},
		},
		Spec: mcfgv1.MachineConfigSpec{
			Config:          runtime.RawExtension{Raw: []byte(ignition)},
			KernelArguments: []string{"quiet"},
		},
	}
}

// TestContentComesBack: what is restored has the inventory of what was applied, also where it takes several parts.
func TestContentComesBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for sentence, size := range map[string]int{"small": 10, "several parts": 2 << 20} {
		t.Run(sentence, func(t *testing.T) {
			noise := make([]byte, size)
			for i := range noise {
				noise[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[random.IntN(36)]
			}
			c := revision.Content{
				Configs: []*mcfgv1.MachineConfig{
					config("20-b", "worker", `{"ignition":{"version":"3.5.0"}}`),
					config("10-a", "worker", `{"noise":"`+string(noise)+`"}`),
				},
				Objects: []*unstructured.Unstructured{object(t, infra), object(t, careful)},
				Foreign: []*unstructured.Unstructured{object(t, infra)},
			}
			c.Configs[0].Annotations[v1alpha1.SecretPathsAnnotation] = "/etc/a"
			parts, digest, err := revision.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			if several := len(parts) > 1; several != (sentence == "several parts") {
				t.Errorf("%d parts", len(parts))
			}
			back, err := revision.Decode(parts, digest)
			if err != nil {
				t.Fatal(err)
			}
			before, err := c.Inventory()
			if err != nil {
				t.Fatal(err)
			}
			after, err := back.Inventory()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(before, after); diff != "" {
				t.Errorf("the inventory changed:\n%s", diff)
			}
			if len(back.Foreign) != 1 || back.Configs[0].Annotations[v1alpha1.FileAnnotation] == "" {
				t.Error("something is missing")
			}
			if back.Configs[1].Annotations[v1alpha1.SecretPathsAnnotation] != "/etc/a" ||
				back.Configs[0].Annotations[v1alpha1.SecretPathsAnnotation] != "" {
				t.Error("the marks of secret paths are not those of the content")
			}
			slices.Reverse(c.Configs)
			if _, again, _ := revision.Encode(c); again != digest {
				t.Error("the digest depends on the order")
			}
			if _, err := revision.Decode(parts[:len(parts)-1], digest); err == nil {
				t.Error("a missing part was not noticed")
			}
			if _, err := revision.Decode(parts, strings.Replace(digest, "a", "b", 1)); err == nil {
				t.Error("another content was taken for this one")
			}
		})
	}
}

// FuzzDecode: whatever a RevisionContent holds, reading it returns a content of that digest or an error.
func FuzzDecode(f *testing.F) {
	parts, digest,
		err := revision.Encode(revision.Content{Configs: []*mcfgv1.MachineConfig{config("10-a", "worker", `{}`)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Join(parts, nil), digest)
	f.Add([]byte("\x1f\x8b"), "sha256:")
	f.Fuzz(func(t *testing.T, data []byte, digest string) {
		c, err := revision.Decode([][]byte{data}, digest)
		if err != nil {
			return
		}
		if _, err := c.Inventory(); err != nil {
			t.Errorf("a content that was read has no inventory: %v", err)
		}
	})
}
