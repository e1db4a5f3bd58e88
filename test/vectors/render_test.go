package vectors_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/reconcile/render"
)

// renderCase is one answer of the original's renderer.
type renderCase struct {
	Case             string
	Pool             string
	ControllerConfig struct {
		BaseOSContainerImage           string
		BaseOSExtensionsContainerImage string
	}
	MachineConfigs []struct {
		Name, Role string
		Spec       mcfgv1.MachineConfigSpec
	}
	Name, HashInputYAML, Error string
	Spec                       json.RawMessage
}

// renderExceptions are the cases in which our renderer differs.
var renderExceptions = exceptions{}

// refusedFor are words that our own refusals share with the original's.
var refusedFor = map[string][]string{
	"bad-extension-with-config": {"extension", "nope", "MachineConfig 10"},
	"bad-kerneltype":            {"kernelType", "zen", "invalid"},
	"ign36-rejected":            {"3.6.0", "not supported", "3.5.0"},
	"relative-path":             {"files[0] etc/a", "path not absolute"},
}

func TestRenderAgreesWithTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[[]renderCase](t, "render.json") {
		t.Run(c.Case, func(t *testing.T) {
			var mcs []*mcfgv1.MachineConfig
			for _, m := range c.MachineConfigs {
				mcs = append(mcs, &mcfgv1.MachineConfig{
					ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{render.RoleLabel: m.Role}},
					Spec:       m.Spec,
				})
			}
			got, err := render.Merge(c.Pool, mcs, render.Defaults{
				OSImageURL:      c.ControllerConfig.BaseOSContainerImage,
				ExtensionsImage: c.ControllerConfig.BaseOSExtensionsContainerImage,
			})
			if c.Error != "" {
				refused(t, err, refusedFor[c.Case])
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != c.Name {
				renderExceptions.differs(t, c.Case, seen, "name %s, the original's is %s", got.Name, c.Name)
			}
			hashed, err := yaml.Marshal(got.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.HashInputYAML, string(hashed)); diff != "" {
				renderExceptions.differs(t, c.Case, seen, "the hash is over other text (-original +ours):\n%s", diff)
			}
			if diff := cmp.Diff(generic(t, c.Spec), generic(t, got.Spec)); diff != "" {
				renderExceptions.differs(t, c.Case, seen, "the spec differs (-original +ours):\n%s", diff)
			}
		})
	}
	renderExceptions.settle(t, seen)
}

// refused fails unless the error is there and has the words; a case without words is not understood.
func refused(t *testing.T, err error, words []string) {
	t.Helper()
	if err == nil {
		t.Fatal("the original refuses it, we do not")
	}
	if len(words) == 0 {
		t.Fatalf("no words are listed for this refusal: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the refusal lacks %q: %v", w, err)
		}
	}
}

// generic is a value as any JSON reader sees it.
func generic(t *testing.T, v any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
