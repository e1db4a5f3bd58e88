package revision_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

const infra = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: infra
  labels: {tier: back}
spec:
  machineConfigSelector: {matchLabels: {role: infra}}
  nodeSelector: {matchLabels: {infra: ""}}
  maxUnavailable: 2
`

const careful = `
apiVersion: bunsen.dev/v1alpha1
kind: RolloutPolicy
metadata:
  name: careful
spec:
  pools: [infra]
  canary: {nodes: 1, soak: 90m}
`

// TestAnObjectIsInForce: a live object has the digest of what the repository wants, as long as it has all of that.
func TestAnObjectIsInForce(t *testing.T) {
	for sentence, c := range map[string]struct {
		want string
		edit func(o *unstructured.Unstructured)
		is   bool
	}{
		"as it was applied":                     {infra, func(*unstructured.Unstructured) {}, true},
		"with a config that was rendered":       {infra, func(o *unstructured.Unstructured) { set(o, "rendered-infra-1", "spec", "configuration", "name") }, true},
		"paused, which is not the repository's": {infra, func(o *unstructured.Unstructured) { set(o, true, "spec", "paused") }, true},
		"with somebody's label":                 {infra, func(o *unstructured.Unstructured) { set(o, "x", "metadata", "labels", "mine") }, true},
		"with another number":                   {infra, func(o *unstructured.Unstructured) { set(o, int64(3), "spec", "maxUnavailable") }, false},
		"without a field":                       {infra, func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "nodeSelector") }, false},
		"with one more label in a selector": {infra, func(o *unstructured.Unstructured) {
			set(o, "yes", "spec", "machineConfigSelector", "matchLabels", "more")
		}, false},
		"with another value of a label": {infra, func(o *unstructured.Unstructured) { set(o, "front", "metadata", "labels", "tier") }, false},
		"a duration in another spelling": {careful, func(o *unstructured.Unstructured) {
			set(o, "1h30m0s", "spec", "canary", "soak")
		}, true},
		"another duration": {careful, func(o *unstructured.Unstructured) { set(o, "1h", "spec", "canary", "soak") }, false},
		"a list with one more element": {careful, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedStringSlice(o.Object, []string{"infra", "worker"}, "spec", "pools")
		}, false},
		"a forged annotation": {infra, func(o *unstructured.Unstructured) {
			o.SetAnnotations(
				map[string]string{v1alpha1.WantedAnnotation: strings.Replace(
					o.GetAnnotations()[v1alpha1.WantedAnnotation], `"maxUnavailable":2`, `"maxUnavailable":3`, 1)})
			set(o, int64(3), "spec", "maxUnavailable")
		}, false},
		"no annotation": {infra, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			want := object(t, c.want)
			text, digest, err := revision.Wanted(want)
			if err != nil {
				t.Fatal(err)
			}
			live := want.DeepCopy()
			live.SetAnnotations(map[string]string{v1alpha1.WantedAnnotation: text})
			c.edit(live)
			if got := (&revision.Digests{}).OfObject(live); (got == digest) != c.is {
				t.Errorf("the digest is %q, that of the repository is %q; in force should be %t", got, digest, c.is)
			}
			if c.is || sentence == "no annotation" || sentence == "a forged annotation" {
				return
			}
			revision.Replace(live, want)
			if got := (&revision.Digests{}).OfObject(live); got != digest &&
				sentence != "with another value of a label" {
				t.Errorf("once it is replaced, it has the digest %q and not %q", got, digest)
			}
		})
	}
}

func set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}
