package schedule

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PolicyProblem is an error in a policy.
type PolicyProblem struct {
	// Path of the field, such as spec.windows[2].schedule; for a missing one, where it belongs.
	Path string
	// Text says what is wrong and what to write instead.
	Text string
}

type checker struct{ problems []PolicyProblem }

func (c *checker) wrong(path, format string, args ...any) {
	c.problems = append(c.problems, PolicyProblem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// CheckPolicy returns all errors in a policy, also those that the CRD's schema finds, because a commit is checked
// without an API server. Except for lists that are too long, they are in the order of the fields.
func CheckPolicy(p *v1alpha1.RolloutPolicy) []PolicyProblem {
	c := &checker{}
	s := p.Spec
	c.checkLength("spec.batches", len(s.Batches), 50)
	c.checkLength("spec.gates", len(s.Gates), 20)
	c.checkLength("spec.windows", len(s.Windows), 50)
	c.checkPools(s)
	c.checkBudget("spec.maxUnavailable", s.MaxUnavailable)
	c.checkBudget("spec.maxUnavailablePerZone", s.MaxUnavailablePerZone)
	c.checkBudget("spec.maxUnavailableTogether", s.MaxUnavailableTogether)
	c.checkCanary(s.Canary)
	c.checkBatches(s)
	c.checkGates(s.Gates)
	c.checkFailures(s.Failures)
	c.checkAfter(s)
	c.checkWindows(s.Windows)
	c.checkDrain(s.Drain)
	return c.problems
}

func (c *checker) checkGates(gates []v1alpha1.HealthGate) {
	var names []string
	for i, g := range gates {
		path := fmt.Sprintf("spec.gates[%d]", i)
		switch {
		case g.Name == "":
			c.wrong(path+".name", "the gate has no name; write one that people know it by")
		case slices.Contains(names, g.Name):
			c.wrong(path+".name", "another gate is named %s too; write another name", g.Name)
		case len(g.Name) > validation.DNS1123LabelMaxLength:
			c.wrong(path+".name", "it is longer than %d characters", validation.DNS1123LabelMaxLength)
		}
		names = append(names, g.Name)
		c.checkGate(path, g)
	}
}

func (c *checker) checkGate(path string, g v1alpha1.HealthGate) {
	asked := 0
	for _, is := range []bool{g.Ready != nil, g.DaemonSets != nil, g.Job != nil, g.Prometheus != nil} {
		if is {
			asked++
		}
	}
	if asked != 1 {
		c.wrong(path, "it asks %d questions; write exactly one of ready, daemonSets, job and prometheus, and a gate "+
			"of its own for each other", asked)
	}
	if g.Ready != nil && g.Ready.For.Duration <= 0 {
		c.wrong(path+".ready.for", "%s is no time to be Ready for; write a duration such as 5m", g.Ready.For.Duration)
	}
	if g.DaemonSets != nil && len(g.DaemonSets) == 0 {
		c.wrong(path+".daemonSets", "it names none; write namespace and name of each")
	}
	c.checkLength(path+".daemonSets", len(g.DaemonSets), 20)
	for i, d := range g.DaemonSets {
		c.checkObjectName(fmt.Sprintf("%s.daemonSets[%d]", path, i), d)
		if slices.Contains(g.DaemonSets[:i], d) {
			c.wrong(fmt.Sprintf("%s.daemonSets[%d]", path, i), "%s/%s is named twice; remove one", d.Namespace, d.Name)
		}
	}
	if g.Job != nil {
		c.checkObjectName(path+".job.cronJob", g.Job.CronJob)
	}
	if g.Prometheus != nil {
		c.checkPrometheus(path+".prometheus", *g.Prometheus)
	}
}

func (c *checker) checkPrometheus(path string, g v1alpha1.PrometheusGate) {
	const example = "http://prometheus.monitoring.svc:9090"
	u, err := url.Parse(g.URL)
	switch {
	case err != nil: // The text of the error is not used, because it may contain a password.
		c.wrong(path+".url", "it is no URL; write one such as %s", example)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.wrong(path+".url", "%q is no URL of a server; write one such as %s", u.Redacted(), example)
	case u.User != nil:
		c.wrong(path+".url", "it has a user and a password, which all who read the policy would know; remove them, "+
			"and let the network say who may ask")
	case u.RawQuery != "" || u.Fragment != "":
		c.wrong(path+".url", "it has a part after the path; write the server alone, such as %s, and the question "+
			"as query", example)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1") ||
		strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1/query"):
		c.wrong(path+".url", "the path of the API is added by itself; write what comes before /api/v1")
	}
	if strings.TrimSpace(g.Query) == "" {
		c.wrong(path+".query", "there is no query; write one that is true while the service is healthy, such as "+
			"sum(up{job=\"ingress\"}) >= 3")
	}
}

func (c *checker) checkObjectName(path string, o v1alpha1.ObjectName) {
	if len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		c.wrong(path+".namespace", "%q is no namespace; write the one that the object is in", o.Namespace)
	}
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 {
		c.wrong(path+".name", "%q is no name of an object; write its metadata.name", o.Name)
	}
}

func (c *checker) checkLength(path string, n, most int) {
	if n > most {
		c.wrong(path, "%d are more than the %d that a policy may have; write fewer, or a second policy", n, most)
	}
}

func (c *checker) checkPools(s v1alpha1.RolloutPolicySpec) {
	c.checkPoolNames("spec.pools", s.Pools)
	if _, err := metav1.LabelSelectorAsSelector(s.MachineConfigPoolSelector); err != nil {
		c.wrong("spec.machineConfigPoolSelector", "it cannot be read: %v; operators are In, NotIn, Exists and "+
			"DoesNotExist", err)
	}
}

func (c *checker) checkPoolNames(path string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			c.wrong(at, "%q is no name of a pool; write one such as worker", name)
		} else if slices.Contains(names[:i], name) {
			c.wrong(at, "%s is named twice; remove one", name)
		}
	}
}

func (c *checker) readNumber(path string, v intstr.IntOrString) (n int, isPercent, ok bool) {
	n, isPercent, wrong := percent(v)
	switch {
	case wrong != "":
		c.wrong(path, "%s", wrong)
	case n < 0:
		c.wrong(path, "%s is below zero; write a number of nodes, or a percentage", v.String())
	case isPercent && n > 100:
		c.wrong(path, "%s is more than all nodes; write 100%% or less", v.String())
	default:
		return n, isPercent, true
	}
	return 0, false, false
}

func (c *checker) checkBudget(path string, v *intstr.IntOrString) {
	if v == nil {
		return
	}
	if n, _, ok := c.readNumber(path, *v); ok && n == 0 {
		c.wrong(path, "0 stops nothing, for it is read as 1; write 1 or more, or pause the pool")
	}
}

func (c *checker) checkCanary(canary *v1alpha1.RolloutCanary) {
	if canary == nil {
		return
	}
	const path = "spec.canary"
	switch {
	case canary.Nodes == nil && canary.NodeSelector == nil:
		c.wrong(path, "it picks no node; write nodes: 1, or a nodeSelector")
	case canary.Nodes != nil && canary.NodeSelector != nil:
		c.wrong(path, "it has both nodes and nodeSelector; write one of them")
	}
	if canary.Nodes != nil {
		c.readStep(path+".nodes", *canary.Nodes)
	}
	if sel := canary.NodeSelector; sel != nil {
		if read, err := metav1.LabelSelectorAsSelector(sel); err != nil {
			c.wrong(path+".nodeSelector", "it cannot be read: %v; operators are In, NotIn, Exists and DoesNotExist",
				err)
		} else if read.Empty() {
			c.wrong(path+".nodeSelector", "it picks every node, and leaves none for later; write labels, such as "+
				"matchLabels: {canary: \"true\"}")
		}
	}
	c.checkDuration(path+".soak", canary.Soak.Duration)
}

func (c *checker) readStep(path string, v intstr.IntOrString) (n int, isPercent, ok bool) {
	if n, isPercent, ok = c.readNumber(path, v); ok && n == 0 {
		c.wrong(path, "0 nodes are no step; write 1 or more")
		return 0, false, false
	}
	return n, isPercent, ok
}

// checkBatches checks that each batch is larger than the one before. It does not compare a number with a percentage.
func (c *checker) checkBatches(s v1alpha1.RolloutPolicySpec) {
	last := map[bool]int{} // last has the last percentage and the last number.
	if s.Canary != nil && s.Canary.Nodes != nil {
		if n, isPercent, wrong := percent(*s.Canary.Nodes); wrong == "" {
			last[isPercent] = n
		}
	}
	for i, b := range s.Batches {
		path := fmt.Sprintf("spec.batches[%d]", i)
		c.checkDuration(path+".soak", b.Soak.Duration)
		n, isPercent, ok := c.readStep(path+".upTo", b.UpTo)
		if !ok {
			continue
		}
		if n <= last[isPercent] {
			unit := map[bool]string{true: "%"}[isPercent]
			c.wrong(path+".upTo", "up to %d%s is not more than the step before, up to %d%s. The number includes the "+
				"nodes of earlier steps; write a larger one, or remove the step", n, unit, last[isPercent], unit)
		}
		last[isPercent] = max(last[isPercent], n)
	}
}

func (c *checker) checkDuration(path string, d time.Duration) {
	if d < 0 {
		c.wrong(path, "%s is below zero; write a duration such as 30m", d)
	}
}

func (c *checker) checkFailures(f *v1alpha1.FailureBudget) {
	if f == nil {
		return
	}
	const path = "spec.failures"
	if f.After < 0 {
		c.wrong(path+".after", "%d nodes; write 1 or more", f.After)
	}
	if !slices.Contains([]v1alpha1.FailureAction{"", v1alpha1.FailureHalt, v1alpha1.FailureRevert}, f.Action) {
		c.wrong(path+".action", "%q is no action; there are Halt and Revert", f.Action)
	}
	if f.NodeDeadline != nil && f.NodeDeadline.Duration <= 0 {
		c.wrong(path+".nodeDeadline", "%s would fail a node that reboots at once; write a duration such as 30m, or "+
			"remove it to wait without limit", f.NodeDeadline.Duration)
	}
}

func (c *checker) checkAfter(s v1alpha1.RolloutPolicySpec) {
	c.checkPoolNames("spec.after", s.After)
	for i, name := range s.After {
		if slices.Contains(s.Pools, name) {
			c.wrong(fmt.Sprintf("spec.after[%d]", i), "%s would wait for itself; remove it here, or write a policy "+
				"for the pools that wait for it", name)
		}
	}
}

// windowFields: the names in the policy
var windowFields = map[string]string{
	"Schedule": "schedule", "Duration": "duration", "Zone": "timeZone", "From": "from",
	"Until": "until",
}

func (c *checker) checkWindows(ws []v1alpha1.MaintenanceWindow) {
	found := CheckWindows(windows(ws))
	for i, w := range ws {
		path := fmt.Sprintf("spec.windows[%d]", i)
		if !slices.Contains([]v1alpha1.WindowKind{"", v1alpha1.WindowAllow, v1alpha1.WindowDeny}, w.Kind) {
			c.wrong(path+".kind", "%q is no kind of window; there are Allow and Deny", w.Kind)
		}
		for _, p := range found {
			if p.Window == i {
				c.wrong(path+"."+windowFields[p.Field], "%s", p.Text)
			}
		}
	}
}

func (c *checker) checkDrain(d *v1alpha1.DrainPolicy) {
	if d == nil {
		return
	}
	if !slices.Contains([]v1alpha1.DrainAction{"", v1alpha1.DrainWait, v1alpha1.DrainMoveOn, v1alpha1.DrainDelete},
		d.WhenBlocked) {
		c.wrong("spec.drain.whenBlocked", "%q is no action; there are Wait, MoveOn and Delete", d.WhenBlocked)
	}
	c.checkDuration("spec.drain.after", d.After.Duration)
}

// Doubts returns the fields of a policy that are valid but have no effect.
func Doubts(p *v1alpha1.RolloutPolicy) []PolicyProblem {
	c := &checker{}
	if d := p.Spec.Drain; d != nil && d.After.Duration > 0 && drain(d).WhenBlocked == v1alpha1.DrainWait {
		c.wrong("spec.drain.after", "after has no effect with whenBlocked: Wait, because the controller then tries "+
			"to drain without limit. Write whenBlocked: MoveOn or Delete, or remove after")
	}
	return c.problems
}
