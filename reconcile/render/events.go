package render

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// reportNewNodesOnly reports which parts of a new config only new nodes of the pool get.
func reportNewNodesOnly(events kube.Events, pool *mcfgv1.MachineConfigPool, newNodes []disruption.Refusal) {
	if len(newNodes) == 0 {
		return
	}
	lines := make([]string, len(newNodes))
	for i, n := range newNodes {
		lines[i] = n.Field + ": " + n.Why
	}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "NewNodesOnly", Action: "Render",
		Note: strings.Join(lines, "; "),
	})
}

// reportRendered reports a new rendered config, with the warnings and notices of the merge.
func reportRendered(events kube.Events, pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig,
	rendered Rendered,
) {
	from := fmt.Sprintf("%s %q", kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]),
		mc.Annotations[v1alpha1.CommitSubjectAnnotation])
	if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 ||
		len(asked.After) > 0 {
		from = kube.RequesterText(asked)
	}
	events.Send(kube.Event{
		Object: pool, Related: mc, Reason: "RenderedConfigGenerated", Action: "Render",
		Note: mc.Name + " from " + from,
	})
	for _, w := range rendered.Warnings {
		events.Send(kube.Event{
			Object: pool, Related: mc, Warning: true, Reason: "RenderWarning", Action: "Render",
			Note: w,
		})
	}
	if n := len(rendered.Notices); n > 0 {
		lines := make([]string, n)
		for i, notice := range rendered.Notices {
			lines[i] = notice.String()
		}
		events.Send(kube.Event{
			Object: pool, Related: mc, Reason: "RenderNotice", Action: "Render",
			Note: "several MachineConfigs set the same thing: " + strings.Join(lines, "; "),
		})
	}
}

// measure reports the time from a commit to the first config that was rendered from it.
func (r *Controller) measure(f facts, mc *mcfgv1.MachineConfig) {
	src := newestSource(f.selectedSources())
	if r.ReportLatency != nil && src != nil &&
		src.Status.AppliedCommit.Revision == mc.Annotations[v1alpha1.RevisionAnnotation] {
		r.ReportLatency(f.pool.Name, r.Now().Sub(src.Status.AppliedCommit.Time.Time))
	}
}
