package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// How patient the agent is.
const (
	// firstPause after a failure; it doubles up to longestPause.
	firstPause, longestPause = time.Second, time.Minute
	// lookAgain is when a node that waits is looked at without being told to.
	lookAgain = 5 * time.Minute
	// drainLimit is how long a drain may take before the node says that it is stuck; openLimit is the same for its end.
	drainLimit, openLimit = time.Hour, 10 * time.Minute
	// outage is how long parts of the API may give no answer, while others do, before the node says so.
	outage = time.Minute
)

// ErrRebooting tells that the machine goes down. The caller stops, and a new agent starts after the boot.
var ErrRebooting = errors.New("the machine is rebooting")

// errLater tells that somebody else has to do something first; the Node will change then.
var errLater = errors.New("waiting")

// Config is what an Agent is made of. Node, Cluster, Host and Log must be set; what is nil of the others is not done.
type Config struct {
	// Node is the node's name, for the log.
	Node string
	// Cluster to speak with.
	Cluster Cluster
	// Host to act on.
	Host host.Host
	// Log gets one line for each step.
	Log *slog.Logger
	// Health judges a new config; nil: every config is well.
	Health *Health
	// Drift watches what configs put on the machine.
	Drift Watcher
	// Events and Metrics are told what happens, and Board where the agent is.
	Events  Events
	Metrics Metrics
	Board   Board
}

// Agent serves one node. It is not safe for use by several goroutines.
type Agent struct {
	Config
	memory memory
	gate   *gate
	runner apply.Runner
	// at is where the agent is; but for the phase, each pass finds it out anew.
	at progress.Place
	// failed is the config whose steps were tried last and did not work, "" when there is none: the node stays Degraded
	// while it is tried again.
	failed string
	// asked is what somebody else is waited for, and since when.
	asked waiting
	// silence of the API server; told is what it told about the Node in this pass, nil for nothing.
	silence silence
	told    *protocol.Assignment
	// calm is kept where the machine is disturbed all the time.
	calm calm
	// begun: the first look at the machine was taken; seen: it was found to be in its config since.
	begun, seen bool
}

// New makes an agent. Nothing happens before Run or Sync.
func New(c Config) *Agent {
	c.Log = c.Log.With("node", c.Node)
	a := &Agent{Config: c, at: progress.Place{Phase: progress.Idle}, memory: memory{c.Host}}
	a.gate = &gate{Config: c, memory: a.memory, stop: context.Background()}
	judge := func(ctx context.Context, rec host.Record) error {
		if a.at.Phase == progress.Idle {
			a.at.Phase = progress.Rebooting // it began in another process
		}
		a.enter(progress.Checking)
		sign{a}.recall(rec)
		sign{a}.put()
		return a.gate.judge(ctx, rec)
	}
	h := c.Host
	h.Power = voice{h.Power, a}
	a.runner = apply.Runner{Host: h, Tell: c.tell, Gate: judge, Rejected: a.gate.rejected}
	return a
}

// tell logs a step, and has an event for those that people feel.
func (c Config) tell(s host.Step, undone bool) {
	verb := "done"
	if undone {
		verb = "taken back, now"
	}
	level := slog.LevelInfo
	if strings.HasPrefix(s.Target, path.Dir(host.RecordPath)+"/") {
		level = slog.LevelDebug // its own bookkeeping
	}
	c.Log.Log(context.Background(), level, verb, "step", s.String())
	switch {
	case undone:
	case s.Verb == host.Reload:
		c.event(protocol.EventServiceReload, "reloaded %s", s.Target)
	case s.Verb == host.Restart:
		c.event(protocol.EventServiceRestart, "restarted %s", s.Target)
	case s.Verb == host.SetImage:
		c.event(protocol.EventOSUpdateStaged, "staged OS image %s for the next boot", s.After.Word)
	}
}

// Phase is where the agent is.
func (a *Agent) Phase() progress.Phase { return a.at.Phase }

func (a *Agent) enter(p progress.Phase) {
	if !progress.Legal(a.at.Phase, p) {
		a.Log.Error("illegal transition, which is a bug", "from", string(a.at.Phase), "to", string(p))
	}
	if a.at.Phase != p {
		a.Log.Debug("phase", "from", string(a.at.Phase), "to", string(p))
	}
	a.at.Phase = p
}

// Run syncs whenever the Node changes or the machine is disturbed, until the context ends (nil) or the machine reboots
// (ErrRebooting). An update that has begun is brought to its end first. After a failure it pauses, unless another config
// is desired meanwhile.
func (a *Agent) Run(ctx context.Context, changed <-chan struct{}) error {
	var disturbed <-chan struct{}
	if a.Drift != nil {
		disturbed = a.Drift.Disturbed()
	}
	pause := time.Duration(0)
	for {
		desired, err := a.Sync(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRebooting):
			return err
		case err == nil:
			pause = 0
			a.calm.rest(ctx, changed, disturbed, lookAgain)
			continue
		}
		pause = min(max(2*pause, firstPause), longestPause)
		own, level := disturbed, slog.LevelDebug
		if desired != "" && a.failed == desired {
			own, level = nil, slog.LevelError // what the steps did and took back is no news
		}
		if errors.Is(err, protocol.ErrUnreachable) {
			a.Log.Log(ctx, level, "looking again", "in", pause, "err", err)
			a.calm.rest(ctx, changed, own, jitter(pause))
			continue
		}
		a.Log.Error("update failed, trying again", "config", desired, "in", pause, "err", err)
		if a.waitFailed(ctx, changed, own, desired, pause) {
			pause = 0
		}
	}
}

// jitter keeps many nodes from asking at once after an outage.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// wait returns false when the context ended.
func wait(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// waitFailed pauses, at most until the machine is disturbed; it returns true, at once, when another config is desired than
// the one that failed, when the Node asks to try again, or when there is a Node again.
func (a *Agent) waitFailed(ctx context.Context, changed, disturbed <-chan struct{}, failed string, pause time.Duration) bool {
	until := time.Now().Add(pause)
	for a.calm.rest(ctx, changed, disturbed, time.Until(until)) {
		if node, err := a.Cluster.Assignment(ctx); err == nil && (a.told == nil || node.Desired != failed || node.Retry != a.told.Retry) {
			return true
		}
	}
	return false
}

// waiting is for somebody else.
type waiting struct {
	// what is asked for, and since when.
	what  string
	since time.Time
}

// from tells how long something has been waited for; anything else begins anew. Began is when it is known to have begun,
// zero where nobody knows.
func (w *waiting) from(what string, began time.Time) time.Duration {
	if w.what != what {
		*w = waiting{what, time.Now()}
	}
	if !began.IsZero() && began.Before(w.since) {
		w.since = began
	}
	return time.Since(w.since)
}
