package poolstate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestPoolsOfANode covers what the vectors in test/vectors do not.
func TestPoolsOfANode(t *testing.T) {
	role := func(r string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{r: ""}}
	}
	normal := []*mcfgv1.MachineConfigPool{
		pool("worker", role("w")), pool("infra", role("i")), pool("gpu", role("g")),
		pool("nil", nil), pool("empty", &metav1.LabelSelector{}),
	}
	broken := append(normal[:len(normal):len(normal)],
		pool("broken",
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}}))
	for sentence, tc := range map[string]struct {
		pools   []*mcfgv1.MachineConfigPool
		labels  map[string]string
		primary string
		err     string
	}{
		"an absent or empty selector matches nothing":          {normal, map[string]string{"other": ""}, "", ""},
		"a custom pool comes before worker":                    {normal, map[string]string{"w": "", "i": ""}, "infra", ""},
		"a Windows node belongs to nobody":                     {normal, map[string]string{"w": "", corev1.LabelOSStable: "windows"}, "", ""},
		"two custom pools are refused by name":                 {normal, map[string]string{"i": "", "g": ""}, "", "2 custom pools (gpu, infra)"},
		"a selector that cannot be read keeps every node back": {broken, map[string]string{"w": ""}, "", `nodeSelector of MachineConfigPool "broken"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			primary, _, err := membership.New(tc.pools).For("n0", tc.labels)
			if primary != tc.primary {
				t.Errorf("pool %q, want %q", primary, tc.primary)
			}
			if got := errText(err); tc.err == "" && got != "" || !strings.Contains(got, tc.err) {
				t.Errorf("error %q, want %q", got, tc.err)
			}
		})
	}
}

// TestMaxUnavailable covers what the vectors in test/vectors do not.
func TestMaxUnavailable(t *testing.T) {
	if n, err := poolstate.MaxUnavailable("arbiter", new(intstr.FromString("50%")), 10); n != 1 || err != nil {
		t.Errorf("the arbiter pool's budget is always 1, got %d, %v", n, err)
	}
	_, err := poolstate.MaxUnavailable("worker", new(intstr.FromString("many")), 10)
	for _, want := range []string{`"many"`, `MachineConfigPool "worker"`, `"10%"`} {
		if !strings.Contains(errText(err), want) {
			t.Errorf("error %q does not name %s", errText(err), want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAPoolThatSelectsEverythingIsToldAbout(t *testing.T) {
	named := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for does, c := range map[string]struct {
		nodes, configs *metav1.LabelSelector
		want           string
	}{
		"both name labels":              {named, named, ""},
		"a selector that is not there":  {nil, nil, ""},
		"a nodeSelector of {}":          {&metav1.LabelSelector{}, named, "spec.nodeSelector"},
		"a machineConfigSelector of {}": {named, &metav1.LabelSelector{}, "spec.machineConfigSelector"},
	} {
		pool := &mcfgv1.MachineConfigPool{Spec: mcfgv1.MachineConfigPoolSpec{
			NodeSelector:          c.nodes,
			MachineConfigSelector: c.configs,
		}}
		got := poolstate.Read(pool, nil, poolstate.Published{}, 3).Care.Invalid
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", does, got, c.want)
		}
	}
}

// TestRequestedBy reads who requested a retry or released a pool: the name counts for that request alone.
func TestRequestedBy(t *testing.T) {
	for sentence, tc := range map[string]struct{ annotation, what, want string }{
		"the name belongs to this retry":      {"2026-01-02T12:00:00Z ada", "2026-01-02T12:00:00Z", "ada"},
		"a later retry was made with kubectl": {"2026-01-02T12:00:00Z ada", "2026-01-03T12:00:00Z", ""},
		"nothing was requested":               {"ada", "", ""},
		"the name has line breaks":            {"v1 ada\nlovelace\t", "v1", "ada lovelace"},
		"there is no name":                    {"v1", "v1", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.SteeredByAnnotation: tc.annotation,
			}}}
			if got := poolstate.RequestedBy(pool, tc.what); got != tc.want {
				t.Errorf("it was %q, not %q", got, tc.want)
			}
		})
	}
}
