package drift

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Policy is the drift policy of a node's pool. With the zero value, every difference makes the node Degraded. The
// daemon stores it as JSON for API outages.
type Policy struct {
	// Rules are the rules in order; the first matching rule decides.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is one rule of a DriftPolicy.
type Rule struct {
	// Policy is the name of the DriftPolicy.
	Policy string `json:"policy"`
	// Pattern is a pattern of Match.
	Pattern string `json:"pattern"`
	// Action is what to do about a matching item.
	Action v1alpha1.DriftAction `json:"action"`
	// Limit is the limit for the repairs of each item.
	Limit Limit `json:"limit"`
}

// Limit allows Burst repairs at once, and one more after each Interval.
type Limit struct {
	// Interval is the time after which one more repair is allowed; default 10 minutes.
	Interval time.Duration `json:"interval,omitempty"`
	// Burst is how many repairs are allowed at once; default 3.
	Burst int `json:"burst,omitempty"`
}

// actions are the valid actions of a rule.
var actions = []v1alpha1.DriftAction{
	v1alpha1.DriftDegrade, v1alpha1.DriftRepair, v1alpha1.DriftReport,
	v1alpha1.DriftIgnore,
}

func (l Limit) filled() Limit {
	return Limit{Interval: max(cmp.Or(l.Interval, 10*time.Minute), time.Second), Burst: max(cmp.Or(l.Burst, 3), 1)}
}

// Select returns the rules of all policies that select a pool, in the order of the policies' names. poolLabels are the
// labels of the MachineConfigPool. The error names policies with an invalid selector or action. Select still returns
// the rules of the valid policies.
func Select(all []v1alpha1.DriftPolicy, pool string, poolLabels map[string]string) (Policy, error) {
	var p Policy
	var bad []string
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b v1alpha1.DriftPolicy) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		o := &sorted[i]
		ok, err := selects(o.Spec, pool, poolLabels)
		if err != nil {
			bad = append(bad, fmt.Sprintf("DriftPolicy %s: spec.machineConfigPoolSelector: %v", o.Name, err))
		}
		if !ok {
			continue
		}
		limit := Limit{Interval: o.Spec.Repair.Interval.Duration, Burst: int(o.Spec.Repair.Burst)}.filled()
		for i, r := range o.Spec.Rules {
			rule := Rule{Policy: o.Name, Pattern: r.Path, Action: r.Action, Limit: limit}
			if !slices.Contains(actions, r.Action) {
				bad = append(bad, fmt.Sprintf("DriftPolicy %s: spec.rules[%d].action: %q is none of %s, and "+
					"counts as %s", o.Name, i, r.Action, actions, v1alpha1.DriftDegrade))
				rule.Action = v1alpha1.DriftDegrade
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	if len(bad) > 0 {
		return p, fmt.Errorf("reading drift policies: %s", bad)
	}
	return p, nil
}

// selects reports whether a policy selects a pool.
func selects(s v1alpha1.DriftPolicySpec, pool string, poolLabels map[string]string) (bool, error) {
	if len(s.Pools) == 0 && s.MachineConfigPoolSelector == nil {
		return true, nil
	}
	if slices.Contains(s.Pools, pool) {
		return true, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(s.MachineConfigPoolSelector) // A nil selector selects nothing.
	if err != nil {
		return false, err
	}
	return sel.Matches(labels.Set(poolLabels)), nil
}

// ActionFor returns what the policy does when a path differs.
func (p Policy) ActionFor(path string) v1alpha1.DriftAction { return p.rule(Item{Name: path}).Action }

// rule returns the first rule that matches an item, or the default rule.
func (p Policy) rule(it Item) Rule {
	for _, r := range p.Rules {
		if Match(r.Pattern, it.Name) || it.Unit != "" && Match(r.Pattern, it.Unit) {
			return r
		}
	}
	return Rule{Action: v1alpha1.DriftDegrade}
}

// Match reports whether a pattern of a DriftRule matches the name of an item.
//
//	**        alone: every item; as a part of a path: any number of directories, or none
//	*         any characters within one part
//	?         one character
//
// A pattern that starts with / matches paths only, and another pattern matches other items only. Every other character
// matches itself, so every pattern is valid.
func Match(pattern, name string) bool {
	if pattern == "**" {
		return true
	}
	if strings.HasPrefix(pattern, "/") != strings.HasPrefix(name, "/") {
		return false
	}
	return matchNames(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchNames returns to the last ** after a mismatch, as matchWord does with *. The text before that ** has matched
// already, so the time is at most proportional to the product of the lengths of pattern and name.
func matchNames(pattern, names []string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, from = p, n
			p++
		case p < len(pattern) && matchWord([]rune(pattern[p]), []rune(names[n])):
			p, n = p+1, n+1
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchWord(pattern, word []rune) bool {
	p, w, star, from := 0, 0, -1, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			p, w = p+1, w+1
		case star >= 0:
			from++
			p, w = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
