package agent

import (
	"context"
	"errors"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent/contentsync"
	"github.com/bunsen-os/bunsen/mcd/agent/statefile"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// resolved names the remote files of a config as the machine names their contents. It passes an error on.
func (c Config) resolved(at plan.Config, err error) (plan.Config, error) {
	at.Config = c.Fetch.Resolve(at.Config)
	return at, err
}

// fetchContents downloads the remote files that the desired config needs and the machine lacks. It returns errResync after
// it stored any. If another config is desired meanwhile, the download ends.
func fetchContents(ctx context.Context, a *Agent, node report.Node, t statefile.Task) error {
	from, err := a.currentConfig(ctx, node)
	if err != nil {
		return err
	}
	to, err := plan.ParseConfig(t.Config)
	if err != nil {
		return err
	}
	changed, err := contentsync.Fetch(ctx, a.Fetch, contentsync.Way{From: from, To: to}, func(text string) error {
		if now, err := a.Cluster.Node(ctx); err == nil && now.Desired != node.Desired {
			return contentsync.ErrStop
		}
		if a.Reported != nil {
			a.Reported()
		}
		return a.postpone(reportWaiting(ctx, a, text))
	})
	if errors.Is(err, contentsync.ErrStop) || err == nil && changed {
		return errResync
	}
	return err
}

// reportWaiting reports why the node is not drained yet.
func reportWaiting(ctx context.Context, a *Agent, text string) error {
	a.outage.markReachable(a.Log)
	setStatus(a, v1alpha1.StateWorking, text)
	publishStatus(a)
	return a.reportState(ctx, v1alpha1.StateWorking, text)
}

// keepContents stores the remote files of the config in force. A failure delays nothing.
func keepContents(ctx context.Context, a *Agent, node report.Node) {
	at, err := a.currentConfig(ctx, node)
	if err == nil {
		err = contentsync.Keep(a.Fetch, at)
	}
	if err != nil {
		a.Log.Warn("keeping the contents of remote files", "err", err)
	}
}
