package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/state"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// reject stores the rejection before the rollback, so that a crash does not lose the reason.
func (c *HealthChecker) reject(ctx context.Context, rec host.Record, ill *health.Failure) error {
	v := c.newRejection(rec, fmt.Sprintf("%s; %s", ill.Error(), failedUnitsText(ill.Units)))
	v.Unconfirmed = ill.Unconfirmed
	if err := c.files.Save(ctx, state.RejectionPath, v); err != nil {
		return errors.Join(ill, err)
	}
	c.log.Warn("rolling back", "config", rec.From, "from", rec.To, "why", ill.Error())
	return ill
}

// newRejection returns a final rejection of a journal's config.
func (c *HealthChecker) newRejection(rec host.Record, why string) state.Rejection {
	v := state.Rejection{Config: rec.To, Time: time.Now().UTC().Truncate(time.Second), Attempt: rec.BootID}
	about := rec.To
	if t, err := c.files.Task(rec.To); err == nil && t != nil {
		about, v.Retry, v.Attempt = t.ConfigText(), t.Node.Retry, strconv.Itoa(t.Attempt)
	}
	if rec.Cause != host.Interrupted {
		why = "the machine is not healthy with it: " + why
	}
	v.Problem = fmt.Sprintf("%s; the node is back in %s", why, report.RollbackTarget(rec.From, rec.To))
	v.Why = fmt.Sprintf("updating to %s: %s; %s", about, v.Problem, retryText)
	return v
}

// RolledBack is called after a rollback. RolledBack stores the rejection, if the health check did not, and removes the
// force file, which works once. If a power cut may be the cause, RolledBack counts the attempt first.
func (c *HealthChecker) RolledBack(rec host.Record, why error) error {
	ctx := context.Background()
	if ignored, err := c.isNotCounted(rec); err != nil || ignored {
		return err
	}
	v, err := c.files.Rejection()
	if err != nil {
		return err
	}
	if v == nil || v.Config != rec.To {
		v = &state.Rejection{Retries: true}
	}
	now := c.newRejection(rec, strings.TrimPrefix(why.Error(), apply.ErrUnhealthy.Error()+": "))
	if v.Retries && v.Attempt != now.Attempt {
		now.Attempts = v.Add(rec.Cause)
		now.Retries = rec.Cause != host.Unhealthy && !now.IsExhausted()
		if rec.Cause == host.Interrupted {
			counted := c.newRejection(rec, fmt.Sprintf("%d times, %v; see journalctl --list-boots and journalctl -b "+
				"-1 -e on the node", now.Interrupted, why))
			now.Why, now.Problem = counted.Why, counted.Problem
		}
		v = &now
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("storing the rejection: %w", err)
	}
	if err := c.files.Write(ctx, state.RejectionPath, text); err != nil {
		return err
	}
	return c.files.Remove(ctx, host.ForcePath)
}

// isNotCounted reports whether an interruption does not count against a config. isNotCounted does not count if there
// was no update, or if this process started the attempt and could not store the reason for the rollback.
func (c *HealthChecker) isNotCounted(rec host.Record) (bool, error) {
	if rec.Cause != host.Interrupted {
		return false, nil
	}
	t, err := c.files.Task(rec.To)
	return t == nil || c.started == t.LastAttempt(), err
}

// countCheck counts a health check durably, once for each process. countCheck returns a failed check if the machine or
// the daemon went down during state.MaxHealthChecks checks. Without this count, such a config would never be
// rejected.
func (c *HealthChecker) countCheck(ctx context.Context, t *state.Task) *health.Failure {
	if t == nil || c.counted == t.LastAttempt() {
		return nil
	}
	if t.Checks >= state.MaxHealthChecks {
		return &health.Failure{Problems: []string{fmt.Sprintf("the machine or the daemon went down during the health "+
			"check %d times", t.Checks)}}
	}
	c.counted = t.LastAttempt()
	t.Checks++
	c.saveCheckCount(ctx, t)
	return nil
}

// uncountCheck removes a health check from the count if the daemon was stopped during the check.
func (c *HealthChecker) uncountCheck(ctx context.Context, t *state.Task) {
	if t != nil && c.counted == t.LastAttempt() {
		c.counted = state.Attempt{}
		t.Checks--
		c.saveCheckCount(context.WithoutCancel(ctx), t)
	}
}

// saveCheckCount stores the number of health checks.
func (c *HealthChecker) saveCheckCount(ctx context.Context, t *state.Task) {
	if err := c.files.Save(ctx, state.TaskPath, t); err != nil {
		c.log.Warn("cannot save the number of health checks", "err", err)
	}
}

// failedUnitsText lists the commands that show why units failed.
func failedUnitsText(units []string) string {
	if len(units) == 0 {
		return "see journalctl -b -1 on the node"
	}
	return "see journalctl -u " + strings.Join(units, " -u ") + " on the node"
}

// retryText explains how a user retries a rejected config.
const retryText = "the daemon does not retry the config until the controller assigns another one. Fix or revert the " +
	"commit; or retry with `bunsen retry` or `touch " + host.ForcePath + "` on the node"
