package membership_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/membership"
)

func TestReportedKeys(t *testing.T) {
	for sentence, c := range map[string]struct {
		selector string
		want     string
	}{
		"a zone":                             {"topology.kubernetes.io/zone=a", "topology.kubernetes.io/zone"},
		"an architecture, of several":        {"kubernetes.io/arch in (arm64,amd64)", "kubernetes.io/arch"},
		"a role":                             {"node-role.kubernetes.io/infra", ""},
		"a role in a zone":                   {"node-role.kubernetes.io/infra,topology.kubernetes.io/zone=a", ""},
		"an own label":                       {"example.com/gpu=true", ""},
		"a zone, and not a role":             {"topology.kubernetes.io/zone=a,!node-role.kubernetes.io/infra", "topology.kubernetes.io/zone"},
		"no role":                            {"!node-role.kubernetes.io/infra", ""},
		"another architecture than this one": {"kubernetes.io/arch notin (amd64)", ""},
		"a type in a zone":                   {"topology.kubernetes.io/zone=a,node.kubernetes.io/instance-type=m5", "node.kubernetes.io/instance-type topology.kubernetes.io/zone"},
	} {
		s, err := metav1.ParseToLabelSelector(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		if is := strings.Join(membership.ReportedKeys(s), " "); is != c.want {
			t.Errorf("%s: %q, want %q", sentence, is, c.want)
		}
	}
	if keys := membership.ReportedKeys(nil); keys != nil {
		t.Error(keys)
	}
}

// TestTheAdmissionPolicyHasTheSameLabels: what a kubelet may set, and what `bunsen validate` warns of, are one list.
func TestTheAdmissionPolicyHasTheSameLabels(t *testing.T) {
	policy, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "nodes-labels-admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(policy), "!k.startsWith('topology.kubernetes.io/') && !(k in")
	list, _, _ = strings.Cut(list, "]))")
	var keys []string
	for i, part := range strings.Split(list, "'") {
		if i%2 == 1 {
			keys = append(keys, part)
		}
	}
	slices.Sort(keys)
	is := membership.ReportedKeys(&metav1.LabelSelector{MatchExpressions: exist(keys)})
	if len(keys) < 9 || !slices.Equal(is, keys) {
		t.Errorf("config/rbac has %q, of which %q are reported", keys, is)
	}
}

func exist(keys []string) []metav1.LabelSelectorRequirement {
	var out []metav1.LabelSelectorRequirement
	for _, k := range keys {
		out = append(out, metav1.LabelSelectorRequirement{Key: k, Operator: metav1.LabelSelectorOpExists})
	}
	return out
}
