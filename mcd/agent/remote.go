package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// resolved names the remote files of a config as the machine names their contents. It passes an error on.
func (c Config) resolved(at plan.Config, err error) (plan.Config, error) {
	at.Config = c.Fetch.Resolve(at.Config)
	return at, err
}

// fetchContents downloads the remote files that the desired config needs and the machine lacks. It returns errResync
// after it stored any. If another config is desired meanwhile, the download ends.
func fetchContents(ctx context.Context, a *Agent, node report.Node, t state.Task) error {
	from, err := a.currentConfig(ctx, node)
	if err != nil {
		return err
	}
	to, err := plan.ParseConfig(t.Config)
	if err != nil {
		return err
	}
	a.Fetch.Stop()
	changed, err := fetch.Fetch(ctx, a.Fetch.Fetcher(), fetch.Way{From: from, To: to},
		func(text string) error {
			if now, err := a.Cluster.Node(ctx); err == nil && now.Desired != node.Desired {
				return fetch.ErrStopSync
			}
			if a.Reported != nil {
				a.Reported()
			}
			return a.postpone(reportWaiting(ctx, a, text))
		})
	if errors.Is(err, fetch.ErrStopSync) || err == nil && changed {
		return errResync
	}
	if err == nil {
		err = a.Fetch.FetchImage(ctx, fetch.Way{From: from, To: to})
	}
	if err == nil && node.Fetched != "" { // An earlier report is outdated.
		err = a.postpone(a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: ""}))
	}
	return err
}

// reportWaiting reports why the node is not drained yet.
func reportWaiting(ctx context.Context, a *Agent, text string) error {
	a.outage.MarkReachable(a.Log)
	setStatus(a, v1alpha1.StateWorking, text)
	publishStatus(a)
	return a.reportState(ctx, v1alpha1.StateWorking, text)
}

// reportUnfetched reports why the node cannot download files of its desired config.
func reportUnfetched(ctx context.Context, a *Agent, problem error) error {
	if a.node != nil {
		is := fetch.WithProblem(v1alpha1.ConfigName(a.node.Desired), fetch.LastReport(a.node.Fetched),
			problem)
		if err := a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
			return err
		}
	}
	return reportWaiting(ctx, a, problem.Error())
}

// keepContents stores the remote files of the config in force. A failure delays nothing.
func keepContents(ctx context.Context, a *Agent, node report.Node) {
	at, err := a.currentConfig(ctx, node)
	if err == nil {
		err = fetch.Keep(a.Fetch.Fetcher(), at)
	}
	if err != nil {
		a.Log.Warn("keeping the contents of remote files", "err", err)
	}
}

// stopFetching ends the downloads in the background.
func stopFetching(a *Agent) {
	defer a.Fetch.Lock()()
	a.Fetch.Stop()
}

// followNext downloads the content of the config that the node gets next, in the background, and reports whether the
// machine has it. A failure delays nothing else, and is tried again.
func followNext(ctx context.Context, a *Agent, node report.Node) {
	if a.Fetch == nil {
		return
	}
	next := node.Next
	if next == v1alpha1.ConfigName(node.Desired) {
		next = ""
	}
	was := fetch.LastReport(node.Fetched)
	is := a.Fetch.Report(ctx, next, was, func() (fetch.Way, error) {
		mc, err := readConfig(ctx, a.Config, next)
		if err != nil {
			return fetch.Way{}, fmt.Errorf("reading the config: %w", err)
		}
		to, err := plan.ParseConfig(mc)
		if err != nil { // The node refuses the config when it is assigned, and says why.
			to = plan.Config{Name: next}
		}
		from, err := a.currentConfig(ctx, node)
		return fetch.Way{From: from, To: to}, err
	})
	if err := a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
		a.Log.Warn("reporting the content of the next config", "config", next, "err", err)
		a.Fetch.TryAgain()
	} else if is.Problem != "" && (is.Config != was.Config || was.Problem == "") {
		a.event(report.EventFetchFailed, "content of %s: %s", is.Config, is.Problem)
	}
}
