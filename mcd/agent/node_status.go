package agent

import (
	"cmp"
	"context"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// StatusPublisher publishes the progress of the daemon as the status of the node's MachineConfigNode.
type StatusPublisher interface {
	// Publish replaces the status that was published before. Publish returns at once and never fails. A status that is
	// soon replaced by the next one may never be written.
	Publish(at report.Status)
}

// publishStatus publishes the agent's status. publishStatus skips a status without a desired config, unless the agent
// is idle.
func publishStatus(a *Agent) {
	a.status.Phase = a.phase.Phase()
	if a.Status != nil && (a.status.Node.Desired != "" || a.status.Phase == report.Idle) {
		a.Status.Publish(a.status)
	}
}

// setStatus records the state and the reason for the next publishStatus.
func setStatus(a *Agent, state, reason string) {
	a.status.Node.State, a.status.Node.Reason = state, v1alpha1.TruncateReason(reason)
}

// restoreStatus fills the status from the journal of an update, which an earlier process may have started.
// restoreStatus needs no API server.
func restoreStatus(a *Agent, rec host.Record) {
	a.status.Planned, a.status.Reboots = true, health.Reboots(rec)
	if a.status.Node.Desired == rec.To {
		return
	}
	a.status.Node = report.Node{Current: rec.From}
	if t, err := a.files.Task(rec.To); err == nil && t != nil {
		a.status.Node = t.Node // t.Node is the Node as it was at the start of the steps.
	}
	a.status.Node.Desired = rec.To
	if a.status.Node.State != v1alpha1.StateDegraded {
		setStatus(a, v1alpha1.StateWorking, "")
	}
	a.status.Drains = a.status.Reboots || strings.HasPrefix(a.status.Node.LastAppliedDrain, v1alpha1.DrainVerb+"-")
}

// publishReboot publishes that the machine reboots for the update of a journal.
func publishReboot(a *Agent, rec host.Record) {
	restoreStatus(a, rec)
	a.enter(report.Rebooting)
	publishStatus(a)
}

// publishRollback publishes that the machine reboots to roll back.
func publishRollback(a *Agent, end apply.Applied, why string) {
	a.enter(report.Rebooting)
	a.status.Planned, a.status.RollingBack = true, true
	a.status.Node.Desired, a.status.Node.Current = cmp.Or(a.status.Node.Desired, end.To), end.From
	setStatus(a, v1alpha1.StateDegraded, why)
	publishStatus(a)
}

// namedReboot is a host.Power whose reboots name the config and the commit, for users who are logged in.
type namedReboot struct {
	host.Power
	agent *Agent
}

// Reboot implements host.Power.
func (r namedReboot) Reboot(ctx context.Context, why string) error {
	if rec, err := r.agent.Host.Journal.Load(); err == nil && rec != nil {
		why = r.agent.check.RebootText(*rec)
		// In the phase RollbackReboot, reportReboot publishes the rollback with the reason.
		if rec.Phase != host.RollbackReboot {
			publishReboot(r.agent, *rec)
		}
	}
	return r.Power.Reboot(ctx, why)
}
