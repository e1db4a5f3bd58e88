package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/policy"
)

// Sync does what is next for the node and returns the config that is desired. No error means that there is nothing to do
// until the Node or the machine changes. A failure has been reported on the Node, if the cluster can be reached; what
// could not be told is found on disk again and told later.
func (a *Agent) Sync(ctx context.Context) (desired string, err error) {
	for {
		desired, err = a.pass(ctx)
		var refused *refusedError
		var standing *standingError
		var drifted *driftedError
		switch {
		case errors.Is(err, errAgain):
			continue
		case err == nil, errors.Is(err, errLater):
			a.silence.over(a.Log)
			return desired, nil
		case errors.Is(err, ErrRebooting), ctx.Err() != nil:
			return desired, err
		case errors.As(err, &refused):
			a.enter(progress.Refused)
			a.failed, a.at.Refusals = "", refused.refusals
			return desired, a.complain(ctx, v1alpha1.StateUnreconcilable, err)
		case errors.As(err, &standing):
			a.enter(progress.Rejected)
			a.failed = ""
			return desired, a.complain(ctx, v1alpha1.StateDegraded, err)
		case errors.As(err, &drifted):
			a.enter(progress.Drifted)
			return desired, a.complain(ctx, v1alpha1.StateDegraded, err)
		case errors.Is(err, protocol.ErrUnreachable) && (a.told == nil || a.silence.missing(a.Log) < outage):
			return desired, err
		}
		a.enter(progress.RolledBack)
		sign{a}.says(v1alpha1.StateDegraded, err.Error())
		sign{a}.put()
		reportFailure(ctx, a, desired, err)
		return desired, errors.Join(err, a.report(ctx, v1alpha1.StateDegraded, err.Error()))
	}
}

// errAgain asks for another pass at once: something was done that changes what is next.
var errAgain = errors.New("look again")

// refusedError is a config that a running node cannot take.
type refusedError struct {
	// config as named has it.
	config   string
	refusals []policy.Refusal
}

// Error lists the refusals, each with its field.
func (e *refusedError) Error() string {
	var parts []string
	for _, r := range e.refusals {
		parts = append(parts, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	return fmt.Sprintf("the node refused %s, and nothing was changed: %s", e.config, strings.Join(parts, "; "))
}

// missingConfigError is a desired config that is not on the cluster.
type missingConfigError struct {
	config string
	cause  error
}

// Error names the config.
func (e *missingConfigError) Error() string {
	return fmt.Sprintf("fetching the desired config %s: %v; see kubectl get machineconfig %s", e.config, e.cause, e.config)
}

// Unwrap is the API server's answer.
func (e *missingConfigError) Unwrap() error { return e.cause }

// standingError is a verdict that stands.
type standingError struct{ verdict }

// Error is why.
func (e *standingError) Error() string { return e.Why }

// driftedError is a machine that is not as its config says.
type driftedError struct{ error }

// Unwrap is the reason.
func (e *driftedError) Unwrap() error { return e.error }

// complain reports a state that stays until somebody does something. It logs it when the Node does not say so yet.
func (a *Agent) complain(ctx context.Context, state string, why error) error {
	a.silence.over(a.Log)
	sign{a}.says(state, why.Error())
	sign{a}.put()
	if a.Metrics != nil {
		a.Metrics.State(state, fit(why.Error()))
	}
	node, err := a.Cluster.Assignment(ctx)
	reportFailure(ctx, a, node.Desired, why)
	if err == nil && node.State == state && node.Reason == fit(why.Error()) {
		return nil
	}
	a.Log.Warn(strings.ToLower(state), "why", why.Error())
	if state == v1alpha1.StateUnreconcilable {
		a.event(protocol.EventFailedToReconcile, "%s", why.Error())
	}
	return a.report(ctx, state, why.Error())
}

// report tells state and reason, if the Node does not say so already.
func (c Config) report(ctx context.Context, state, reason string) error {
	reason = fit(reason)
	if c.Metrics != nil {
		c.Metrics.State(state, reason)
	}
	want := map[string]string{v1alpha1.StateAnnotation: state, v1alpha1.ReasonAnnotation: reason, v1alpha1.PostConfigActionAnnotation: ""}
	if state != v1alpha1.StateDegraded && state != v1alpha1.StateUnreconcilable {
		want[v1alpha1.FailureAnnotation] = ""
	}
	if err := c.annotate(ctx, want); err != nil {
		return fmt.Errorf("reporting state %s: %w", state, err)
	}
	return nil
}

// annotate reports what the Node does not say yet.
func (c Config) annotate(ctx context.Context, want map[string]string) error {
	node, err := c.Cluster.Assignment(ctx)
	if err != nil {
		return err
	}
	changes := node.Unsaid(want)
	if len(changes) == 0 {
		return nil
	}
	return c.Cluster.Report(ctx, changes)
}

// later lets a report wait for the API server to come back: it is derived again from what is on disk.
func (c Config) later(err error) error {
	if errors.Is(err, protocol.ErrUnreachable) {
		c.Log.Debug("telling it later", "err", err)
		return nil
	}
	return err
}

// silence of the API server.
type silence struct {
	// since when it has not answered; zero while it does.
	since time.Time
}

// missing tells for how long it has not answered.
func (s *silence) missing(log *slog.Logger) time.Duration {
	if s.since.IsZero() {
		s.since = time.Now()
		log.Warn("the API server does not answer; going on with what is on disk")
	}
	return time.Since(s.since)
}

// over notes that it answers.
func (s *silence) over(log *slog.Logger) {
	if !s.since.IsZero() {
		log.Info("the API server answers again", "after", time.Since(s.since).Round(time.Second))
	}
	s.since = time.Time{}
}
