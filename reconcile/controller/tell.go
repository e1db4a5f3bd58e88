package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Events is the one method of an event recorder that the controllers use (k8s.io/client-go/tools/events).
type Events interface {
	// Eventf tells about regarding; action is what was being done, in UpperCamelCase.
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// tell makes one event of each transition of a GitSource.
func (r *Source) tell(before, after *v1alpha1.GitSource, out status.SourceFacts) {
	ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ReadyCondition)
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ReadyCondition)
	// The words of a failure that is tried again by itself may differ each time; its reason and its commit do not.
	again := was != nil && ready != nil && was.Reason == ready.Reason && before.Status.ObservedRevision == after.Status.ObservedRevision &&
		(was.Message == ready.Message || fault.Of(out.Err, "").Kind == fault.Retry)
	switch {
	case out.Err != nil && ready != nil && !again:
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, ready.Reason, "Follow", "%s", clip(ready.Message))
	case out.Applied != nil && before.Status.AppliedRevision != after.Status.AppliedRevision:
		c := out.Applied.Commit
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, "NewRevision", "Follow", "applied %s %s by %s", short(c.Revision), source.Quote(c.Subject), c.Author)
	}
}

// warnings of a report, a line each.
func warnings(report transpile.Report) []string {
	var lines []string
	for _, e := range report {
		if e.Severity == transpile.Warning {
			lines = append(lines, e.String())
		}
	}
	return lines
}

// short is a revision as events show it.
func short(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return revision
	}
	return r.Short()
}

// mostNote is the API's limit for the note of an event, with some room.
const mostNote = 1000

// clip keeps a note within the API's limit.
func clip(s string) string { return cutTo(s, mostNote) }

func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:max(0, most)], "") + "…"
}

// reportError is a transpile report as an error: one line a problem, and the commit that has them.
type reportError struct {
	report transpile.Report
	commit source.Commit
}

// Error returns the fatal entries first, since a status has room for a few lines only.
func (e reportError) Error() string {
	var fatal transpile.Report
	for _, entry := range e.report {
		if entry.Severity == transpile.Fatal {
			fatal = append(fatal, entry)
		}
	}
	return fmt.Sprintf("%s\nin %s %s by %s; nothing of it is applied", fatal, e.commit.Revision().Short(), source.Quote(e.commit.Subject), e.commit.Author)
}

// namingCommit is the failure of an attempt that left nothing of a commit on the cluster, with that commit. A failure that may pass
// by itself, and one of the revision in force, stay as they are.
func namingCommit(src *v1alpha1.GitSource, out status.SourceFacts) error {
	f := fault.Of(out.Err, "")
	var report reportError
	switch {
	case out.Err == nil, out.Tried == nil, out.Applied != nil, out.Observed == src.Status.AppliedRevision:
		return out.Err
	case f.Kind != fault.Stalled, errors.As(out.Err, &report): // a report names its commit itself
		return out.Err
	}
	c := out.Tried
	err := fmt.Errorf("%w\nin %s %s by %s; nothing of it is applied", out.Err, short(c.Revision), source.Quote(c.Subject), c.Author)
	return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: err}
}

// missingPools names the directories below pools/ that no MachineConfigPool stands for.
func missingPools(res transpile.Result, pools []mcfgv1.MachineConfigPool) error {
	have := map[string]bool{}
	for name := range standardPools {
		have[name] = true
	}
	for i := range pools {
		have[pools[i].Name] = true
	}
	for _, o := range res.Cluster {
		if o.Object.GetKind() == "MachineConfigPool" {
			have[o.Object.GetName()] = true
		}
	}
	var errs []error
	for _, p := range res.Pools {
		if !have[p] {
			errs = append(errs, fmt.Errorf("pools/%s: there is no MachineConfigPool %q on the cluster or in cluster/; add cluster/%s.yaml with one, or rename the directory", p, p, p))
		}
	}
	return errors.Join(errs...)
}

// unrendered says which pools do not take what is on the cluster: whoever pushed looks at the GitSource first.
func unrendered(pools []mcfgv1.MachineConfigPool) []string {
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

// renderedUnder maps each pool that was rendered at the revision to its rendered config.
func renderedUnder(at string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		if p := &pools[i]; at != "" && p.Annotations[v1alpha1.RevisionAnnotation] == at && p.Spec.Configuration.Name != "" {
			target, _ := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation]) // nothing is recorded where it cannot be read
			if given := revision.GivenBy(target, at, p.Spec.Configuration.Name); given != "" {
				out[p.Name] = given
			}
		}
	}
	return out
}

// notRenderedUnder maps each pool that could not be rendered at the revision to the reason.
func notRenderedUnder(revision string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		p := &pools[i]
		why := condition(p, mcfgv1.MachineConfigPoolRenderDegraded)
		if why != "" && revision != "" && p.Annotations[v1alpha1.NotRenderedAnnotation] == revision {
			out[p.Name] = strings.TrimPrefix(why, "Failed to render configuration for pool "+p.Name+": ")
		}
	}
	return out
}

// writeStatus writes the whole status of obj where it differs from before, and refuses to overwrite a newer object. It is
// an update, not a patch: a patch leaves out what is zero on both sides, and `kubectl get mcp` would show blanks.
func writeStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	return c.Status().Update(ctx, obj)
}
