package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// Run syncs whenever the Node or a watched file changes, until the context ends (nil) or the machine reboots
// (ErrRebooting). Run first finishes an update that has already started. After a failure, Run waits before the next
// attempt, unless another config is desired meanwhile.
func (a *Agent) Run(ctx context.Context, changed <-chan struct{}) error {
	wake := signals{Changed: changed, Fetched: a.Fetch.Changed()}
	defer a.stopFetching()
	if a.Drift != nil {
		wake.Disturbed = a.Drift.Disturbed()
	}
	if a.Trust != nil {
		wake.Trust = a.Trust.Changed()
	}
	pause := time.Duration(0)
	for {
		early := a.syncTrust(ctx)
		o := a.Sync(ctx)
		if !early && ctx.Err() == nil {
			a.syncTrust(ctx) // an update was under way
		}
		stepsFailed := o.Desired != "" && a.report.retries(o.Desired)
		switch {
		case ctx.Err() != nil:
			return nil
		case o.kind == rebooting:
			return o.Err
		case o.Err == nil:
			if !stepsFailed { // A further try of a failed config waits for its drain here.
				pause = 0
			}
			wake.wait(ctx, true, a.untilResync())
			continue
		}
		pause = min(max(2*pause, minBackoff), maxBackoff)
		switch {
		case o.kind == unknownReboot:
			a.Log.Warn("looking again whether the machine reboots", "in", pause, "err", o.Err)
			wake.wait(ctx, false, pause)
		case o.isUnread():
			level := slog.LevelDebug
			if stepsFailed {
				level = slog.LevelError
			}
			a.Log.Log(ctx, level, "the next sync follows", "in", pause, "err", o.Err)
			// If steps failed, they and their rollback have changed watched files, so changes of these files are
			// ignored.
			wake.wait(ctx, !stepsFailed, jitter(pause))
		default:
			a.Log.Error("update failed, retrying", "config", o.Desired, "in", pause, "err", o.Err)
			if a.waitFailed(ctx, &wake, o.Desired, pause) {
				pause = 0
			}
		}
	}
}

// syncTrust writes the files that the machine gets beside its config. It returns false if an update is under way.
func (a *Agent) syncTrust(ctx context.Context) (done bool) {
	if a.Trust == nil {
		return true
	}
	defer a.Fetch.Lock()()
	turn := trust.Turn{Rules: a.Cluster.Rules, OnStep: a.updater.runner.OnStep, Now: time.Now()}
	if node := a.report.node; node != nil && node.Current == "" && node.Desired == "" {
		turn.Unconfigured = !a.firstBoot.configured()
	}
	return a.Trust.Sync(ctx, turn)
}

// stopFetching ends the downloads in the background.
func (a *Agent) stopFetching() {
	defer a.Fetch.Lock()()
	a.Fetch.Stop()
}

// untilResync returns how long the agent waits for a change. Nothing tells it when something that refuses a config is
// gone from the machine, such as a mask.
func (a *Agent) untilResync() time.Duration {
	onNode := func(r disruption.Refusal) bool { return r.Check != "" }
	if a.Phase() == report.Refused && slices.ContainsFunc(a.report.status.Refusals, onNode) {
		return jitter(maxBackoff)
	}
	return resyncInterval
}

// waitFailed waits for the pause to end or a watched file to change. It returns true at once in three cases: another
// config is desired, the Node requests a retry, or the Node can be read after a failed read.
func (a *Agent) waitFailed(ctx context.Context, s *signals, failed string, pause time.Duration) bool {
	until := time.Now().Add(pause)
	for s.wait(ctx, failed == "" || !a.report.retries(failed), time.Until(until)) {
		node, err := a.Cluster.Node(ctx)
		was := a.report.node
		if err == nil && (was == nil || node.Desired != failed || node.Retry != was.Retry) {
			return true
		}
	}
	return false
}

// jitter adds a random part to a pause, so that nodes do not all send requests at once after an outage.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

const (
	// minBackoff is the first pause after a change or failure. Each further pause is twice as long, up to maxBackoff.
	minBackoff, maxBackoff = time.Second, time.Minute
)

// signals start a sync. The first change of a watched file starts a sync at once. A backoff delays the sync after
// further changes, because a program may write a file every second.
type signals struct {
	// Changed fires when the Node changes. Disturbed fires when a watched file changes. Trust fires when the server has
	// sent other files beside the config. Fetched fires when a download in the background has ended or failed. Each of
	// the channels may be nil.
	Changed, Disturbed, Trust, Fetched <-chan struct{}
	// last is when the last change was accepted. Another change is accepted only after the pause.
	last  time.Time
	pause time.Duration
}

// record records a change. The pause grows with each change that comes soon after another.
func (s *signals) record(now time.Time) {
	if now.Sub(s.last) > 2*s.pause+maxBackoff/2 {
		s.pause = 0
	} else {
		s.pause = min(max(2*s.pause, minBackoff), maxBackoff)
	}
	s.last = now
}

// wait waits for a change of the Node, a change of a watched file if files is true, other files of the server, a
// download, the limit or the end of the context. It returns true for a change of the Node.
func (s *signals) wait(ctx context.Context, files bool, limit time.Duration) bool {
	limited, paused := time.NewTimer(limit), time.NewTimer(s.pause-time.Since(s.last))
	defer limited.Stop()
	defer paused.Stop()
	var accepted <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-limited.C:
			return false
		case <-s.Changed:
			return true
		case <-s.Trust:
			return false
		case <-s.Fetched:
			return false
		case <-paused.C:
			if files {
				accepted = s.Disturbed
			}
		case <-accepted:
			s.record(time.Now())
			return false
		}
	}
}
