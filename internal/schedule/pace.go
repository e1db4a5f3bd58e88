package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pace is how the controller rolls out one pool. With the zero value, only maxUnavailable limits the rollout. Callers
// must not change what it points to.
type Pace struct {
	// Policies select the pool, the most specific first.
	Policies []string
	// MaxUnavailable overrides that of the pool, unless nil.
	MaxUnavailable *intstr.IntOrString
	// PerZone is nil for no limit.
	PerZone  *intstr.IntOrString
	Together []Together
	// Steps are in order, the canary first, without the last one, which updates all other nodes.
	Steps []Step
	// Gates of all policies, those of the most specific first.
	Gates []v1alpha1.HealthGate
	// how many nodes may fail
	Failures Failures
	// After are pools that must be updated first, each once, in alphabetical order.
	After []string
	// of all policies
	Windows Windows
	// for blocked drains
	Drain Drain
}

// Together is a budget that several pools share.
type Together struct {
	// with the budget
	Policy string
	// Max is a number, or a percentage of the nodes of all pools that share the budget.
	Max intstr.IntOrString

	pools selection
}

// Selects reports whether the budget counts a pool's nodes.
func (t Together) Selects(pool *mcfgv1.MachineConfigPool) bool {
	return t.pools.closeness(pool) != notAtAll
}

// Step is a part of a rollout.
type Step struct {
	// the first step
	Canary bool
	// Selector is nil if the step counts nodes.
	Selector labels.Selector
	// UpTo is how many nodes of the pool run the config at the end of the step, including those of earlier steps. A
	// step with a Selector does not use it.
	UpTo intstr.IntOrString
	Soak time.Duration
}

// Size returns UpTo as a number of nodes: a percentage rounded up, at least 1, and maybe more than the nodes; 0 for a
// step with a Selector.
func (s Step) Size(nodes int) int {
	if s.Selector != nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&s.UpTo, nodes, true)
	if err != nil {
		return 1 // CheckPolicy refuses such a value.
	}
	return max(1, n)
}

// Failures says how many nodes may fail a config.
type Failures struct {
	// After is how many failed nodes stop the rollout; 0, without limit, only if no policy selects the pool.
	After  int
	Action v1alpha1.FailureAction
	// NodeDeadline is how long a node with a new config may be not Ready before it counts as failed; 0: no limit.
	NodeDeadline time.Duration
}

// Drain says what the controller does about a blocked drain.
type Drain struct {
	// WhenBlocked says what to do when After has passed; empty is DrainWait.
	WhenBlocked v1alpha1.DrainAction
	// for which a drain is tried before
	After time.Duration
}

// masterPool: only a policy that names this pool sets its maxUnavailable.
const masterPool = "master"

// defaultDrainAfter is how long the controller tries a drain by default.
const defaultDrainAfter = time.Hour

// PaceFor returns the pace of a pool under all policies. The error names all problems of an invalid policy that selects
// it, or that may do so because its selector is invalid. Such a pool is not rolled out, because the pace is unknown.
func PaceFor(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy) (Pace, error) {
	speak, err := speaking(pool, policies)
	if err != nil || len(speak) == 0 {
		return Pace{}, err
	}
	p := Pace{Failures: failures(nil), Drain: drain(nil)}
	var ws []Window
	for _, s := range slices.Backward(speak) { // The closest policy overrides the other policies.
		spec := s.policy.Spec
		if pool.Name == masterPool && s.closeness < byName {
			spec.MaxUnavailable = nil // A larger value could cost the cluster its quorum.
		}
		p.override(spec)
	}
	for _, s := range speak {
		spec := s.policy.Spec
		p.Policies = append(p.Policies, s.policy.Name)
		if spec.MaxUnavailableTogether != nil {
			p.Together = append(p.Together, Together{
				Policy: s.policy.Name, Max: *spec.MaxUnavailableTogether,
				pools: s.selection,
			})
		}
		p.gates(s.policy.Name, spec.Gates)
		p.After = append(p.After, spec.After...)
		ws = append(ws, windows(spec.Windows)...)
	}
	p.Steps = steps(speak)
	slices.Sort(p.After)
	p.After = slices.DeleteFunc(slices.Compact(p.After), func(name string) bool { return name == pool.Name })
	p.Windows, err = ParseWindow(ws)
	return p, err
}

func (p *Pace) override(s v1alpha1.RolloutPolicySpec) {
	if s.MaxUnavailable != nil {
		p.MaxUnavailable = s.MaxUnavailable
	}
	if s.MaxUnavailablePerZone != nil {
		p.PerZone = s.MaxUnavailablePerZone
	}
	if s.Failures != nil {
		p.Failures = failures(s.Failures)
	}
	if s.Drain != nil {
		p.Drain = drain(s.Drain)
	}
}

// gates adds the gates of a policy. Results are stored by name, so a second gate of a name also gets the name of its
// policy. Equal gates are checked once.
func (p *Pace) gates(policy string, gates []v1alpha1.HealthGate) {
	for _, g := range gates {
		at := slices.IndexFunc(p.Gates, func(other v1alpha1.HealthGate) bool { return other.Name == g.Name })
		if at >= 0 && equality.Semantic.DeepEqual(p.Gates[at], g) {
			continue
		}
		if at >= 0 {
			g.Name += " (" + policy + ")"
		}
		p.Gates = append(p.Gates, g)
	}
}

// steps returns the canary of the closest policy that has one, and the batches of the closest that has some.
func steps(speak []speaker) []Step {
	var out []Step
	for _, s := range speak {
		if c := s.policy.Spec.Canary; c != nil {
			step := Step{Canary: true, Soak: c.Soak.Duration}
			if c.Nodes != nil {
				step.UpTo = *c.Nodes
			} else {
				// No error is possible, because Check has parsed the selector.
				step.Selector, _ = metav1.LabelSelectorAsSelector(c.NodeSelector)
			}
			out = append(out, step)
			break
		}
	}
	for _, s := range speak {
		if len(s.policy.Spec.Batches) == 0 {
			continue
		}
		for _, b := range s.policy.Spec.Batches {
			out = append(out, Step{UpTo: b.UpTo, Soak: b.Soak.Duration})
		}
		break
	}
	return out
}

// failures has the defaults of the schema.
func failures(f *v1alpha1.FailureBudget) Failures {
	if f == nil {
		f = &v1alpha1.FailureBudget{}
	}
	out := Failures{After: int(cmp.Or(f.After, 1)), Action: cmp.Or(f.Action, v1alpha1.FailureHalt)}
	if f.NodeDeadline != nil {
		out.NodeDeadline = f.NodeDeadline.Duration
	}
	return out
}

func drain(d *v1alpha1.DrainPolicy) Drain {
	if d == nil {
		d = &v1alpha1.DrainPolicy{}
	}
	return Drain{
		WhenBlocked: cmp.Or(d.WhenBlocked, v1alpha1.DrainWait),
		After:       cmp.Or(d.After.Duration, defaultDrainAfter),
	}
}

func windows(ws []v1alpha1.MaintenanceWindow) []Window {
	out := make([]Window, len(ws))
	for i, w := range ws {
		out[i] = Window{
			Name: w.Name, Deny: w.Kind == v1alpha1.WindowDeny, Schedule: w.Schedule,
			Duration: w.Duration.Duration, Zone: w.TimeZone,
		}
		if w.From != nil {
			out[i].From = w.From.Time
		}
		if w.Until != nil {
			out[i].Until = w.Until.Time
		}
	}
	return out
}

type speaker struct {
	policy    *v1alpha1.RolloutPolicy
	selection selection
	closeness closeness
}

// speaking returns the policies that select a pool, the most specific first.
func speaking(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy) ([]speaker, error) {
	var out []speaker
	var errs []error
	for i := range policies {
		s := speaker{policy: &policies[i]}
		var err error
		if s.selection, err = selectionOf(s.policy.Spec.RolloutPools); err == nil {
			if s.closeness = s.selection.closeness(pool); s.closeness == notAtAll {
				continue
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b speaker) int {
		return cmp.Or(cmp.Compare(b.closeness, a.closeness), cmp.Compare(a.policy.Name, b.policy.Name))
	})
	for _, s := range out {
		for _, problem := range CheckPolicy(s.policy) {
			errs = append(errs, &PolicyError{s.policy.Name, fmt.Errorf("RolloutPolicy %s: %s: %s", s.policy.Name,
				problem.Path, problem.Text)})
		}
	}
	return out, errors.Join(errs...)
}

// PolicyError is an error in one RolloutPolicy.
type PolicyError struct {
	Policy string
	// Err names the policy.
	Err error
}

// Error returns the problem.
func (e *PolicyError) Error() string { return e.Err.Error() }

// Unwrap returns the problem.
func (e *PolicyError) Unwrap() error { return e.Err }

// InvalidPolicies returns the names of the invalid RolloutPolicies of an error, in the error's order.
func InvalidPolicies(err error) []string {
	var names []string
	var policy *PolicyError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			names = append(names, InvalidPolicies(one)...)
		}
	} else if errors.As(err, &policy) {
		names = []string{policy.Policy}
	}
	return names
}

// closeness says how specifically a policy selects a pool.
type closeness int

const (
	notAtAll closeness = iota
	asAll
	byLabels
	byName
)

// selection is zero for all pools.
type selection struct {
	names []string
	// nil if the policy has no selector
	labels labels.Selector
}

func selectionOf(p v1alpha1.RolloutPools) (selection, error) {
	s := selection{names: p.Pools}
	if p.MachineConfigPoolSelector == nil {
		return s, nil
	}
	var err error
	s.labels, err = metav1.LabelSelectorAsSelector(p.MachineConfigPoolSelector)
	return s, err
}

func (s selection) closeness(pool *mcfgv1.MachineConfigPool) closeness {
	switch {
	case slices.Contains(s.names, pool.Name):
		return byName
	case s.labels != nil && s.labels.Matches(labels.Set(pool.Labels)):
		return byLabels
	case s.labels == nil && len(s.names) == 0:
		return asAll
	default:
		return notAtAll
	}
}

// percent parses a number or a percentage, or returns what is wrong.
func percent(v intstr.IntOrString) (n int, isPercent bool, wrong string) {
	if v.Type == intstr.Int {
		return v.IntValue(), false, ""
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, true)
	if err != nil {
		return 0, false, fmt.Sprintf("%q is neither a number nor a percentage; write a number such as 2, or a "+
			"percentage such as \"10%%\"", v.StrVal)
	}
	return n, true, ""
}
