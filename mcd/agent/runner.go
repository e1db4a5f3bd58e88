package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// newRunner returns what applies the steps of updates on a host: it checks the health of the new config, asks before a
// reboot whether the node is still drained, and reports each step.
func newRunner(h host.Host, check *healthChecker, drains *drains, r *nodeReport) apply.Runner {
	h.Power = namedReboot{h.Power, h.Journal, check, r}
	steps := &stepLog{log: r.log}
	return apply.Runner{
		Host: h,
		HealthCheck: func(ctx context.Context, rec host.Record) error {
			r.resume(rec, report.Checking)
			return check.check(ctx, rec)
		},
		OnRejected: check.rolledBack, MayReboot: drains.mayReboot,
		OnWarning: func(err error) { r.log.Warn(err.Error()) },
		OnBegin:   steps.begin, OnEnd: steps.end,
		OnStep: func(s host.Step, undone bool) {
			steps.step(s, undone)
			if !undone {
				r.step(s)
			}
		},
	}
}

// namedReboot is a host.Power whose reboots name the config and the commit, for users who are logged in.
type namedReboot struct {
	host.Power
	journal host.Journal
	check   *healthChecker
	report  *nodeReport
}

// Reboot implements host.Power.
func (r namedReboot) Reboot(ctx context.Context, why string) error {
	if rec, err := r.journal.Load(); err == nil && rec != nil {
		why = r.check.rebootText(*rec)
		// In the phase RollbackReboot, reportReboot publishes the rollback with the reason.
		if rec.Phase != host.RollbackReboot {
			r.report.resume(*rec, report.Rebooting)
		}
	}
	return r.Power.Reboot(ctx, why)
}

// mostLogged is how many steps of one update the log has a line for each. More steps are one line together.
const mostLogged = 100

// stepLog logs the steps of updates.
type stepLog struct {
	log *slog.Logger

	mu sync.Mutex
	// many is true while an update has more than mostLogged steps.
	many  bool
	began time.Time
	// counts has the number of steps since the begin by what they change, with the total under "".
	counts map[string]int
	undone bool
}

// kindsOfSteps are the words for what steps change, in the order of a line.
var kindsOfSteps = []string{"file", "unit", "other step"}

// begin starts an update, or the rollback of one, with a number of steps.
func (l *stepLog) begin(steps int) {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.many, l.began, l.counts = steps > mostLogged, time.Now(), map[string]int{}
}

// step logs a step, or counts it if the update has many.
func (l *stepLog) step(s host.Step, undone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.many {
		l.undone = undone
		l.counts[""]++
		l.counts[kindOfStep(s)]++
		return
	}
	level := slog.LevelInfo
	if strings.HasPrefix(s.Target, path.Dir(host.RecordPath)+"/") {
		level = slog.LevelDebug // The step concerns only the daemon's own files.
	}
	l.log.Log(context.Background(), level, stepVerb(undone), "step", s.String())
}

// end logs the steps that were counted since the begin.
func (l *stepLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[""] > 0 {
		l.log.Info(stepSummary(l.counts, l.undone, time.Since(l.began)))
	}
	l.many, l.counts = false, nil
}

// stepSummary is `done 4,050 steps: 4,000 files, 50 units, in 12s`.
func stepSummary(counts map[string]int, undone bool, took time.Duration) string {
	parts := make([]string, 0, len(kindsOfSteps))
	for _, kind := range kindsOfSteps {
		if n := counts[kind]; n > 0 {
			parts = append(parts, counted(n, kind))
		}
	}
	return fmt.Sprintf("%s %s: %s, in %s", stepVerb(undone), counted(counts[""], "step"), strings.Join(parts, ", "),
		took.Round(time.Second))
}

// counted is `4,000 files`.
func counted(n int, noun string) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	if n != 1 {
		noun += "s"
	}
	return text + " " + noun
}

func stepVerb(undone bool) string {
	if undone {
		return "rolled back"
	}
	return "done"
}

// kindOfStep returns one of kindsOfSteps.
func kindOfStep(s host.Step) string {
	switch {
	case s.IsPath():
		return kindsOfSteps[0]
	case s.Verb == host.Enable || s.Verb == host.Disable || s.Verb == host.Reload || s.Verb == host.Restart ||
		s.Verb == host.Stop:
		return kindsOfSteps[1]
	}
	return kindsOfSteps[2]
}
