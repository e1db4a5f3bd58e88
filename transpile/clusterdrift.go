package transpile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// driftActions are the values of a rule's action.
var driftActions = []v1alpha1.DriftAction{v1alpha1.DriftDegrade, v1alpha1.DriftRepair, v1alpha1.DriftReport, v1alpha1.DriftIgnore}

// drift checks what the API server would refuse of a DriftPolicy, and rules that can never decide.
func (r clusterReader) drift(file string, root *yaml.Node, p *v1alpha1.DriftPolicy) {
	at := func(format string, args ...any) (string, *yaml.Node) {
		field := fmt.Sprintf(format, args...)
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
		return field, n
	}
	if _, err := metav1.LabelSelectorAsSelector(p.Spec.MachineConfigPoolSelector); err != nil {
		field, n := at("spec.machineConfigPoolSelector")
		r.fatal(place(file, n), "selector", "%s: %s", field, selectorMessage(err))
	}
	if every := p.Spec.Repair.Interval.Duration; every != 0 && every < time.Second {
		field, n := at("spec.repair.interval")
		r.fatal(place(file, n), "drift", "%s: %s is less than a second; the usual is 10m", field, every)
	}
	if burst := p.Spec.Repair.Burst; burst < 0 || burst > 100 {
		field, n := at("spec.repair.burst")
		r.fatal(place(file, n), "drift", "%s: %d repairs; want 1 to 100", field, burst)
	}
	all := -1
	for i, rule := range p.Spec.Rules {
		field, n := at("spec.rules.%d.path", i)
		switch {
		case all >= 0:
			r.warn(place(file, n), "drift", "%s: it never decides, as rule %d of this policy is for everything", field, all+1)
		case rule.Path == "":
			r.fatal(place(file, n), "drift", "%s is empty: name a path, a unit, user/NAME, group/NAME or os/PART, or ** for everything", field)
		case !strings.HasPrefix(rule.Path, "/") && strings.Contains(rule.Path, "/") && !slices.Contains([]string{"user", "group", "os", "**", "*"}, strings.Split(rule.Path, "/")[0]):
			r.fatal(place(file, n), "drift", "%s: %q is no absolute path, and before a / only user, group and os stand: write /%s", field, rule.Path, rule.Path)
		}
		if rule.Path == "**" && all < 0 {
			all = i
		}
		if !slices.Contains(driftActions, rule.Action) {
			field, n := at("spec.rules.%d.action", i)
			r.fatal(place(file, n), "drift", "%s: %q is no action; there are Degrade, Repair, Report and Ignore", field, rule.Action)
		}
	}
}
