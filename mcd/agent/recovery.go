package agent

import (
	"context"
	"log/slog"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// recovery finishes or rolls back the update in the journal, which a crash, a reboot or the end of the process
// interrupted. It needs no API server.
type recovery struct {
	runner apply.Runner
	files  state.Files
	report *nodeReport
	log    *slog.Logger
}

// recover continues the update in the journal. It proceeds if there is none any more.
func (r recovery) recover(ctx context.Context) Outcome {
	o := r.continueUpdate(ctx)
	if o.kind != unknownReboot {
		r.report.rebootAnswered()
	}
	return o
}

func (r recovery) continueUpdate(ctx context.Context) Outcome {
	end, err := r.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		if rec, errLoad := r.files.Host.Journal.Load(); errLoad == nil && rec != nil {
			return unfinishedUpdate(rec.To, err)
		}
		return outcomeOf(err)
	case end.End == apply.Rebooting:
		return r.report.reportReboot(ctx, end)
	case end.End == apply.RebootUnknown:
		return r.report.rebootUnanswered(end)
	case end.End == apply.HealthUnknown:
		return unknownHealth(ctx, end)
	case end.End == apply.New:
		r.log.Info("the new config is in force", "config", end.To)
		r.report.countUpdate(end.To, nil)
	case end.End == apply.Old && end.From == end.To && !r.isUpdate(end.To):
		r.log.Warn("rolled back a repair, or a change of files beside the config", "config", end.From, "why", end.Why)
	case end.End == apply.Old:
		r.reportRollback(end)
	case end.End == apply.RollbackFailed:
		r.report.markPlanned()
		return partialRollback(end)
	}
	return Outcome{}
}

// isUpdate reports whether the daemon has stored an update to a config.
func (r recovery) isUpdate(config string) bool {
	t, err := r.files.Task(config)
	return err != nil || t != nil
}

// reportRollback reports the rollback of an update.
func (r recovery) reportRollback(end apply.Applied) {
	r.log.Warn("rolled back", "config", end.From, "from", end.To, "why", end.Why)
	r.report.countUpdate(end.To, end.Why)
	reason := report.EventRolledBack
	if v, err := r.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		reason = report.EventRejected
	}
	r.report.event(reason, "rolled back from %s to %s: %v", end.To, report.RollbackTarget(end.From, end.To), end.Why)
}
