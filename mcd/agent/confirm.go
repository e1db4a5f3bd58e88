package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// confirm reports that the desired config is in force, after the machine was compared with it and the node was
// uncordoned.
func (u *updater) confirm(ctx context.Context, node report.Node) Outcome {
	u.report.enter(report.Confirming)
	if err := u.writeFirstRecord(ctx, node.Desired); err != nil {
		return outcomeOf(err)
	}
	u.keepContents(ctx, node)
	err := u.drift.check(ctx, node)
	if errors.Is(err, report.ErrUnreachable) {
		return outcomeOf(err)
	}
	first := u.drift.first()
	if err != nil {
		if first {
			u.report.event(report.EventDiskStateFailed, "%v", err)
		}
		return failing(drifted, err).because(v1alpha1.FailureDrift)
	}
	if o := u.drains.uncordon(ctx, node); o.ends() {
		if o.kind == waiting {
			u.report.publish()
		}
		return o
	}
	if err := u.configs.firstBoot.clearWithheld(ctx); err != nil {
		return outcomeOf(err)
	}
	if err := u.reportDone(ctx, node); err != nil {
		return outcomeOf(err)
	}
	u.followNext(ctx, node)
	return outcomeOf(errors.Join(u.configs.secrets().Confirm(ctx, node.Desired), u.files.Remove(ctx,
		state.RejectionPath, state.TaskPath)))
}

// writeFirstRecord writes the record of the current config if only the Node names that config, as on a machine that
// has just joined.
func (u *updater) writeFirstRecord(ctx context.Context, name string) error {
	if mc, err := apply.LoadRecord(u.host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := u.configs.read(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := plan.RecordOf(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, u.host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.DiffOptions{From: name, To: name})
	end, err := u.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, end.Why)
}

// keepContents stores the remote files of the config in force. A failure delays nothing.
func (u *updater) keepContents(ctx context.Context, node report.Node) {
	at, err := u.configs.inForce(ctx, node)
	if err == nil {
		err = u.fetch.Fetcher().Keep(at)
	}
	if err != nil {
		u.log.Warn("keeping the contents of remote files", "err", err)
	}
}

// reportDone reports the state Done, and that the config is the current one.
func (u *updater) reportDone(ctx context.Context, node report.Node) error {
	end := report.CurrentAnnotations(node.Desired)
	maps.Copy(end, map[string]string{
		v1alpha1.StateAnnotation: v1alpha1.StateDone, v1alpha1.ReasonAnnotation: "",
		v1alpha1.PostConfigActionAnnotation: "", v1alpha1.FailureAnnotation: "",
	})
	if err := u.report.reportChanges(ctx, end); err != nil {
		return fmt.Errorf("reporting the config in force: %w", err)
	}
	if u.report.metrics != nil {
		u.report.metrics.State(v1alpha1.StateDone, "")
	}
	if node.State != v1alpha1.StateDone || node.Current != node.Desired {
		u.log.Info("done", "config", node.Desired)
		u.report.event(report.EventNodeDone, "the node is in %s", node.Desired)
	}
	u.drains.uncordoned()
	u.report.clearFailed()
	u.report.enter(report.Idle)
	u.report.markCurrent(node.Desired)
	u.report.set(v1alpha1.StateDone, "")
	u.report.publish()
	return nil
}

// followNext downloads the content of the config that the node gets next, in the background, and reports whether the
// machine has it. A failure delays nothing else, and is tried again.
func (u *updater) followNext(ctx context.Context, node report.Node) {
	if u.fetch == nil {
		return
	}
	next := node.Next
	if next == v1alpha1.ParseConfigVersion(node.Desired).Config {
		next = ""
	}
	was := fetch.LastReport(node.Fetched)
	is := u.fetch.Report(ctx, next, was, func() (fetch.Way, error) {
		mc, err := u.configs.read(ctx, next)
		if err != nil {
			return fetch.Way{}, fmt.Errorf("reading the config: %w", err)
		}
		to, err := plan.ParseConfig(mc)
		if err != nil { // The node refuses the config when it is assigned, and says why.
			to = plan.Config{Name: next}
		}
		from, err := u.configs.inForce(ctx, node)
		return fetch.Way{From: from, To: to}, err
	})
	if err := u.report.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
		u.log.Warn("reporting the content of the next config", "config", next, "err", err)
		u.fetch.TryAgain()
	} else if is.Problem != "" && (is.Config != was.Config || was.Problem == "") {
		u.report.event(report.EventFetchFailed, "content of %s: %s", is.Config, is.Problem)
	}
}
