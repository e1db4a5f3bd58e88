package kube

import (
	"context"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// StepTimes finds out when nodes reached their present step of an update, if only their MachineConfigNodes record this
// time. It reads each once for each step, and only a few at a time, because thousands of nodes may be at work.
type StepTimes struct {
	c     client.Reader
	asked map[stepKey]time.Time
	known map[stepKey]*time.Time
}

type stepKey struct {
	node, step string
	config     v1alpha1.ConfigVersion
}

const (
	// per call; no screen shows more nodes
	mostAsked = 24
	// the pause before a MachineConfigNode without the time is read again
	askAgain = 5 * time.Second
)

// NewStepTimes returns a StepTimes that reads with a client and caches the times.
func NewStepTimes(c client.Reader) *StepTimes {
	return &StepTimes{c: c, asked: map[stepKey]time.Time{}, known: map[stepKey]*time.Time{}}
}

// fillRows leaves a time empty that is not found.
func (w *StepTimes) fillRows(ctx context.Context, rows []*fleet.NodeRow) {
	now, n := time.Now(), 0
	for _, r := range rows {
		l := stepKey{r.Name, r.Step, r.Desired}
		if !r.Untimed() {
			continue
		}
		if r.Since = w.known[l]; r.Since != nil || n == mostAsked || now.Sub(w.asked[l]) < askAgain {
			continue
		}
		n++
		w.asked[l] = now
		var of mcfgv1.MachineConfigNode
		if err := w.c.Get(ctx, client.ObjectKey{Name: r.Name}, &of); err == nil {
			r.Since = fleet.Began(&of, r.Step)
			w.known[l] = r.Since
		}
	}
}

// FillStatus adds the missing times of a status.
func (w *StepTimes) FillStatus(ctx context.Context, s *inspect.Status) {
	rows := make([]*fleet.NodeRow, len(s.Nodes))
	for i := range s.Nodes {
		rows[i] = &s.Nodes[i]
	}
	w.fillRows(ctx, rows)
}

// FillWhy adds the missing times of an answer.
func (w *StepTimes) FillWhy(ctx context.Context, y *inspect.Why) {
	var rows []*fleet.NodeRow
	if y.Node != nil {
		rows = append(rows, y.Node)
	}
	for i := range y.Busy {
		rows = append(rows, &y.Busy[i].NodeRow)
	}
	w.fillRows(ctx, rows)
}

// Follow keeps a display current until the context ends. It shows an outage of the API server, and retries.
func (t *Target) Follow(ctx context.Context, c client.Client, d *Display) error {
	rc, err := t.Config()
	if err != nil {
		return err
	}
	Silence() // Errors are on the screen, and a log would overwrite parts of the screen.
	defer d.close()
	return FollowObjects(ctx, rc, c, screen{d, NewStepTimes(c)})
}

type screen struct {
	display *Display
	times   *StepTimes
}

// Due reports whether the display redraws an unchanged screen.
func (s screen) Due(now time.Time) bool { return s.display.isDue(now) }

// Show shows the status of the cluster.
func (s screen) Show(ctx context.Context, cluster fleet.Cluster, now time.Time) error {
	f := fleet.New(cluster, now)
	status := inspect.StatusOf(f)
	s.times.FillStatus(ctx, &status)
	return s.display.show(inspect.OverviewOf(f, status), now)
}

// Problem shows why the screen is not current.
func (s screen) Problem(err error) error {
	return s.display.showMessage("waiting for the cluster: " + err.Error())
}
