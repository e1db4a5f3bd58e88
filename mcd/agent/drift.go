package agent

import (
	"context"
	"errors"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// Watcher tells when something that a config put on this machine may have been changed by somebody else, and who came to
// do so. It says that somebody should look, never what has changed.
type Watcher interface {
	// Watch replaces the paths that are looked after. Paths, and directories above them, that are not there yet are waited
	// for. Called again with the same paths, it does nothing. After an error some of the paths are not looked after.
	Watch(paths []string) error
	// Disturbed holds one signal at most: more say no more. It fires when a watched path or what it stands in changes, when
	// the kernel lost count of changes, and when Accessed becomes true.
	Disturbed() <-chan struct{}
	// Accessed tells that somebody has been logged in over SSH since the watcher began, or was then.
	Accessed() bool
	// Modified is when what is at a path was last modified; zero where nothing is.
	Modified(path string) time.Time
}

// checkDrift compares this machine with the config in force and does what the cluster's DriftPolicy says. It is called
// when the node is in its config and idle: before Done is told, when Drift.Disturbed fires, and on a slow timer. Nil: all
// is as it should be, or nobody minds. An error is the reason to be Degraded, and never one to begin an update.
func (a *Agent) checkDrift(ctx context.Context, node protocol.Assignment) error {
	l := lookout{a}
	at, err := l.inForce(ctx, node)
	if err != nil || at.Name == "" {
		return err
	}
	seen, err := l.look(ctx, at, nil)
	if err != nil {
		return err
	}
	if len(seen.Repair.Steps) > 0 {
		if err := l.repair(ctx, seen); err != nil {
			return errors.Join(err, l.tell(ctx, node, seen))
		}
		fresh := seen.fresh
		if seen, err = l.look(ctx, at, nil); err != nil {
			return err
		}
		seen.fresh = append(fresh, seen.fresh...)
	}
	return l.tell(ctx, node, seen)
}

// noteLogins tells the Node that somebody was logged in over SSH, once. It is called whenever the Node was read.
func (a *Agent) noteLogins(ctx context.Context, node protocol.Assignment) error {
	if node.SSH == v1alpha1.SSHAccessed {
		return nil
	}
	accessed := a.Drift != nil && a.Drift.Accessed()
	if !accessed { // seen by the daemon before this one, when the cluster did not answer
		known, err := lookout{a}.load()
		if err != nil || !known.Accessed {
			return err
		}
	}
	a.Log.Info("somebody is or was logged in over SSH")
	return a.Cluster.Report(ctx, map[string]string{v1alpha1.SSHAnnotation: v1alpha1.SSHAccessed})
}

// lookout looks out for drift. What it knows from one look to the next is on disk.
type lookout struct{ a *Agent }

// before judges drift at the beginning of an update. It returns the plan without the steps that would undo what may stay.
// An error is the reason not to begin: errAgain after something was repaired first.
func (l lookout) before(ctx context.Context, way plan.Way, observed host.State, p plan.Plan) (plan.Plan, error) {
	items := drift.Items(observed, way.Old, way.New)
	if way.From == "" || len(items) == 0 {
		return p, nil
	}
	at, err := l.inForce(ctx, protocol.Assignment{Current: way.From})
	if err != nil {
		return p, err
	}
	seen, err := l.look(ctx, at, &way.New)
	if err != nil {
		return p, err
	}
	if len(seen.Repair.Steps) > 0 {
		if err := l.repair(ctx, seen); err != nil {
			return p, err
		}
		return p, errAgain
	}
	if reason := seen.Reason(way.From); reason != "" && !(p.Reboots() && seen.overwritten()) {
		l.a.event(protocol.EventPreflightFailed, "%s", reason)
		if node, err := l.a.Cluster.Assignment(ctx); err == nil {
			return p, l.tell(ctx, node, seen)
		}
		return p, errors.New(reason)
	}
	return seen.Leave(p, way.Old, way.New), nil
}

// overwritten tells that all that degrades the node is what a rule says to repair: an update that reboots may do so.
func (s sight) overwritten() bool {
	for _, v := range s.Verdicts {
		if v.Action == v1alpha1.DriftDegrade && v.Why == "" {
			return false
		}
	}
	return true
}
