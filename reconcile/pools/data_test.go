package pools_test

import (
	"maps"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/reconcile/pools"
)

func pool(name string, selector *metav1.LabelSelector) mcfgv1.MachineConfigPool {
	return mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigPoolSpec{NodeSelector: selector},
	}
}

func exists(keys ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for _, key := range keys {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      key,
			Operator: metav1.LabelSelectorOpExists,
		})
	}
	return s
}

func TestData(t *testing.T) {
	both := exists("example.com/rack", "example.com/gpu")
	both.MatchLabels = map[string]string{"example.com/gpu": "true", "a": "b"}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"no selector":                {nil, ""},
		"an empty selector":          {&metav1.LabelSelector{}, ""},
		"labels":                     {&metav1.LabelSelector{MatchLabels: map[string]string{"example.com/gpu": ""}}, "example.com/gpu"},
		"labels and expressions":     {both, "a\nexample.com/gpu\nexample.com/rack"},
		"a label that nodes lack":    {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "node-role.kubernetes.io/master", Operator: metav1.LabelSelectorOpDoesNotExist}}}, "node-role.kubernetes.io/master"},
		"keys that no Node can have": {exists("", "a\nkubernetes.io/x", "a,b", "a/b/c", " ", "-", "ä", "x"), "x"},
		"invalid keys only":          {exists("a\nb"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"other": "c"}
			if test.want != "" {
				want["p"] = test.want
			}
			if data := pools.LabelKeys([]mcfgv1.MachineConfigPool{
				pool("p", test.selector),
				pool("other", exists("c")),
			}); !maps.Equal(data, want) {
				t.Errorf("got %q, want %q", data, want)
			}
		})
	}
}
