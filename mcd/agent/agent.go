package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// How patient the agent is.
const (
	// firstPause after a failure; it doubles up to longestPause.
	firstPause, longestPause = time.Second, time.Minute
	// lookAgain is when a node that waits is looked at without being told to.
	lookAgain = 5 * time.Minute
	// drainLimit is how long a drain may take before the node says that it is stuck.
	drainLimit = time.Hour
	// longestReason is what the protocol allows in the reason annotation.
	longestReason = 2000
)

// ErrRebooting tells that the machine goes down. The caller stops, and a new agent starts after the boot.
var ErrRebooting = errors.New("the machine is rebooting")

// errLater tells that somebody else has to do something first; the Node will change then.
var errLater = errors.New("waiting")

// Config is what an Agent is made of. Every field must be set.
type Config struct {
	// Node is the node's name, for the log.
	Node string
	// Cluster to speak with.
	Cluster Cluster
	// Host to act on.
	Host host.Host
	// Log gets one line for each step.
	Log *slog.Logger
}

// Agent serves one node. It is not safe for use by several goroutines.
type Agent struct {
	Config
	runner apply.Runner
	phase  Phase
	// rejected is a config that the machine came back from, with why: it is not tried again.
	rejected string
	why      error
	// failed is the config whose steps were tried last and did not work, "" when there is none: the node stays Degraded
	// while it is tried again.
	failed string
	// drainSince is when the drain under way began.
	drainSince time.Time
}

// New makes an agent. Nothing happens before Run or Sync.
func New(c Config) *Agent {
	a := &Agent{Config: c, phase: Idle}
	a.Log = c.Log.With("node", c.Node)
	a.runner = apply.Runner{Host: c.Host, Tell: func(s host.Step, undone bool) {
		verb := "done"
		if undone {
			verb = "taken back, now"
		}
		level := slog.LevelInfo
		if strings.HasPrefix(s.Target, path.Dir(host.RecordPath)+"/") {
			level = slog.LevelDebug // its own bookkeeping
		}
		a.Log.Log(context.Background(), level, verb, "step", s.String())
	}}
	return a
}

// Phase is where the agent is.
func (a *Agent) Phase() Phase { return a.phase }

func (a *Agent) enter(p Phase) {
	if !Legal(a.phase, p) {
		a.Log.Error("illegal transition, which is a bug", "from", string(a.phase), "to", string(p))
	}
	if a.phase != p {
		a.Log.Debug("phase", "from", string(a.phase), "to", string(p))
	}
	a.phase = p
}

// Run syncs whenever the Node changes, until the context ends (nil) or the machine reboots (ErrRebooting). After a
// failure it pauses, unless another config is desired meanwhile.
func (a *Agent) Run(ctx context.Context, changed <-chan struct{}) error {
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
			if !wait(ctx, changed, lookAgain) {
				return nil
			}
		default:
			pause = min(max(2*pause, firstPause), longestPause)
			a.Log.Error("update failed, trying again", "config", desired, "in", pause, "err", err)
			if a.waitFailed(ctx, changed, desired, pause) {
				pause = 0
			}
		}
	}
}

// wait returns false when the context ended.
func wait(ctx context.Context, changed <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}

// waitFailed pauses; it returns true, at once, when another config is desired than the one that failed.
func (a *Agent) waitFailed(ctx context.Context, changed <-chan struct{}, failed string, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		case <-changed:
			if node, err := a.Cluster.Assignment(ctx); err == nil && node.Desired != failed {
				return true
			}
		}
	}
}

// Sync does what is next for the node and returns the config that is desired. No error means that there is nothing to do
// until the Node changes. A failure has been reported on the Node, if the cluster can be reached.
func (a *Agent) Sync(ctx context.Context) (desired string, err error) {
	for {
		desired, err = a.pass(ctx)
		var refused *refusedError
		switch {
		case errors.Is(err, errAgain):
			continue
		case err == nil, errors.Is(err, errLater):
			return desired, nil
		case errors.Is(err, ErrRebooting), ctx.Err() != nil:
			return desired, err
		case errors.As(err, &refused):
			a.enter(Refused)
			a.failed = ""
			a.Log.Warn("refused", "config", desired, "why", refused.Error())
			return desired, a.report(ctx, v1alpha1.StateUnreconcilable, refused.Error())
		}
		a.enter(RolledBack)
		return desired, errors.Join(err, a.report(ctx, v1alpha1.StateDegraded, err.Error()))
	}
}

// errAgain asks for another pass at once: something was done that changes what is next.
var errAgain = errors.New("look again")

// refusedError is a config that a running node cannot take.
type refusedError struct{ refusals []policy.Refusal }

// Error lists the refusals, each with its field.
func (e *refusedError) Error() string {
	var parts []string
	for _, r := range e.refusals {
		parts = append(parts, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	return strings.Join(parts, "; ")
}

// report tells state and reason, if the Node does not say so already.
func (a *Agent) report(ctx context.Context, state, reason string) error {
	reason = strings.ToValidUTF8(reason, "\uFFFD") // as the cluster would store it
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason-len("…")], "") + "…"
	}
	if err := annotate(ctx, a.Cluster, map[string]string{v1alpha1.StateAnnotation: state, v1alpha1.ReasonAnnotation: reason, v1alpha1.PostConfigActionAnnotation: ""}); err != nil {
		return fmt.Errorf("reporting state %s: %w", state, err)
	}
	return nil
}

// annotate reports what the Node does not say yet.
func annotate(ctx context.Context, cluster Cluster, want map[string]string) error {
	node, err := cluster.Assignment(ctx)
	if err != nil {
		return err
	}
	is := map[string]string{
		v1alpha1.CurrentConfigAnnotation: node.Current, v1alpha1.DesiredConfigAnnotation: node.Desired,
		v1alpha1.StateAnnotation: node.State, v1alpha1.ReasonAnnotation: node.Reason,
		v1alpha1.DesiredDrainAnnotation: node.DesiredDrain, v1alpha1.PostConfigActionAnnotation: node.PostAction,
	}
	changes := map[string]string{}
	for key, value := range want {
		if is[key] != value {
			changes[key] = value
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return cluster.Report(ctx, changes)
}
