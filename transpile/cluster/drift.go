package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// driftActions are the values of a rule's action.
var driftActions = []v1alpha1.DriftAction{
	v1alpha1.DriftDegrade, v1alpha1.DriftRepair, v1alpha1.DriftReport,
	v1alpha1.DriftIgnore,
}

// drift checks a DriftPolicy for values that the API server refuses, and for rules that the daemon would never use.
func (r *reader) drift(root *yaml.Node, p *v1alpha1.DriftPolicy) {
	if _, err := metav1.LabelSelectorAsSelector(p.Spec.MachineConfigPoolSelector); err != nil {
		const field = "spec.machineConfigPoolSelector"
		r.Errorf(r.valueAt(root, field), "selector", "%s: %s", field, selectorMessage(err))
	}
	if every := p.Spec.Repair.Interval.Duration; every != 0 && every < time.Second {
		const field = "spec.repair.interval"
		r.Errorf(r.valueAt(root, field), "drift", "%s: %s is less than a second; the usual is 10m", field, every)
	}
	if burst := p.Spec.Repair.Burst; burst < 0 || burst > 100 {
		const field = "spec.repair.burst"
		r.Errorf(r.valueAt(root, field), "drift", "%s: %d repairs; want 1 to 100", field, burst)
	}
	all := slices.IndexFunc(p.Spec.Rules, func(rule v1alpha1.DriftRule) bool { return rule.Path == "**" })
	for i, rule := range p.Spec.Rules {
		field := fmt.Sprintf("spec.rules.%d.path", i)
		if all >= 0 && i > all {
			r.Warnf(r.valueAt(root, field), "drift", "%s: the rule is never used, because rule %d of this policy "+
				"matches everything", field, all+1)
		} else if problem := pathProblem(rule.Path); problem != "" {
			r.Errorf(r.valueAt(root, field), "drift", "%s%s", field, problem)
		}
		if !slices.Contains(driftActions, rule.Action) {
			field := fmt.Sprintf("spec.rules.%d.action", i)
			r.Errorf(r.valueAt(root, field), "drift", "%s: %q is no action; there are Degrade, Repair, Report "+
				"and Ignore", field, rule.Action)
		}
	}
}

// pathProblem returns what is wrong with the path of a rule, or "".
func pathProblem(path string) string {
	first, _, hasSlash := strings.Cut(path, "/")
	switch {
	case path == "":
		return " is empty: name a path, a unit, user/NAME, group/NAME or os/PART, or ** for everything"
	case hasSlash && first != "" && !slices.Contains([]string{"user", "group", "os", "**", "*"}, first):
		return fmt.Sprintf(": %q is not an absolute path, and only user, group and os may be before a /: write /%s",
			path, path)
	}
	return ""
}

// valueAt returns the position of a field such as spec.rules.0.path. For a scalar, valueAt returns the position of the
// key, otherwise that of the value. For a missing field, valueAt returns the position of the nearest existing parent.
func (r *reader) valueAt(root *yaml.Node, field string) origin.Pos {
	n := root
	for word := range strings.SplitSeq(field, ".") {
		k, v := entry(n, word)
		if v == nil {
			break
		}
		n = v
		if k != v && v.Kind == yaml.ScalarNode {
			n = k
		}
	}
	return r.at(n)
}
