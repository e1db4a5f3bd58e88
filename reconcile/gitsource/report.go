package gitsource

import (
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// reportTransition sends one event for each transition of a GitSource, and one more if the applied commit rewrote the
// history.
func (r *Controller) reportTransition(before, after *v1alpha1.GitSource, out status.SourceFacts) {
	ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ReadyCondition)
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ReadyCondition)
	// If a retried attempt fails again, its message may differ. So only the reason and the commit decide whether the
	// failure is new.
	again := was != nil && ready != nil && was.Reason == ready.Reason &&
		before.Status.ObservedRevision == after.Status.ObservedRevision &&
		(was.Message == ready.Message || fault.Of(out.Err, "").Kind == fault.Retry)
	switch {
	case out.Err != nil && ready != nil && !again:
		r.Events.Send(kube.Event{
			Object: after, Warning: true, Reason: ready.Reason, Action: "Follow",
			Note: ready.Message,
		})
	case out.Applied != nil && before.Status.AppliedRevision != after.Status.AppliedRevision:
		if out.Applied.Rewritten != "" {
			r.Events.Send(kube.Event{
				Object: after, Warning: true, Reason: v1alpha1.ReasonHistoryRewritten,
				Action: "Follow", Note: out.Applied.Rewritten,
			})
		}
		c := out.Applied.Commit
		r.Events.Send(kube.Event{
			Object: after, Reason: "NewRevision", Action: "Follow",
			Note: fmt.Sprintf("applied %s %s by %s", kube.ShortRevision(c.Revision), source.Quote(c.Subject), c.Author),
		})
	}
}

// warnings returns the warnings of a report, each as one line.
func warnings(report transpile.Report) []string {
	var lines []string
	for _, e := range report {
		if e.Severity == transpile.Warning {
			lines = append(lines, e.String())
		}
	}
	return lines
}

// reportError is the report of a transpiled commit as an error. The text of a reportError has one line for each
// problem, and names the commit.
type reportError struct {
	report transpile.Report
	commit source.Commit
}

// Error returns the fatal entries first, because a status shows only a few lines.
func (e reportError) Error() string {
	var fatal transpile.Report
	for _, entry := range e.report {
		if entry.Severity == transpile.Fatal {
			fatal = append(fatal, entry)
		}
	}
	return fmt.Sprintf("%s\nin %s %s by %s; nothing of it is applied", fatal, e.commit.Revision().Short(),
		source.Quote(e.commit.Subject), e.commit.Author)
}

// withCommit adds the commit to the error of an attempt that applied nothing of the commit. withCommit does not change
// temporary failures, nor failures of the applied revision.
func withCommit(src *v1alpha1.GitSource, out status.SourceFacts) error {
	f := fault.Of(out.Err, "")
	var report reportError
	switch {
	case out.Err == nil, out.Tried == nil, out.Applied != nil, out.Observed == src.Status.AppliedRevision:
		return out.Err
	case f.Kind != fault.Stalled, errors.As(out.Err, &report): // The text of a report already names the commit.
		return out.Err
	}
	c := out.Tried
	err := fmt.Errorf("%w\nin %s %s by %s; nothing of it is applied", out.Err, kube.ShortRevision(c.Revision),
		source.Quote(c.Subject), c.Author)
	return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: err}
}

// renderProblems lists the pools that cannot be rendered. The status of the GitSource shows these pools, because the
// author of a commit reads this status first.
func renderProblems(pools []mcfgv1.MachineConfigPool) []string {
	var out []string
	for i := range pools {
		for _, c := range pools[i].Status.Conditions {
			if c.Type == mcfgv1.MachineConfigPoolRenderDegraded && c.Status == corev1.ConditionTrue {
				out = append(out, fmt.Sprintf("pool %s keeps its old config: %s", pools[i].Name, c.Message))
			}
		}
	}
	return out
}

// renderedUnder returns the rendered config of each pool that was rendered at the revision.
func renderedUnder(at string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		if p := &pools[i]; at != "" && p.Annotations[v1alpha1.RevisionAnnotation] == at &&
			p.Spec.Configuration.Name != "" {
			// An invalid record counts as no record.
			target, _ := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation])
			if given := revision.GivenBy(target, at, p.Spec.Configuration.Name); given != "" {
				out[p.Name] = given
			}
		}
	}
	return out
}

// notRenderedUnder returns the reason for each pool that could not be rendered at the revision.
func notRenderedUnder(revision string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		p := &pools[i]
		why := kube.ConditionMessage(p, mcfgv1.MachineConfigPoolRenderDegraded)
		if why != "" && revision != "" && p.Annotations[v1alpha1.NotRenderedAnnotation] == revision {
			out[p.Name] = v1alpha1.RenderProblem(p.Name, why)
		}
	}
	return out
}

// heldElsewhere returns the pools that users hold at another revision, by name.
func heldElsewhere(revision string, pools []mcfgv1.MachineConfigPool) []string {
	var out []string
	for i := range pools {
		if p := &pools[i]; p.Annotations[v1alpha1.HoldAnnotation] != "" &&
			p.Annotations[v1alpha1.HeldRevisionAnnotation] != revision {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}
