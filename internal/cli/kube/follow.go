package kube

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Follow keeps a display current until the context ends. During an outage of the API server, the display says so and
// Follow retries.
func Follow(ctx context.Context, t *Target, c client.Client, d *Display) error {
	rc, err := t.Config()
	if err != nil {
		return err
	}
	Silence() // Errors are on the screen, and a log would overwrite parts of the screen.
	defer d.close()
	return FollowObjects(ctx, rc, c, screen{d, NewStepTimes(c)})
}

// screen shows each state of a cluster on a display.
type screen struct {
	display *Display
	times   *StepTimes
}

// Due reports whether the display redraws an unchanged screen.
func (s screen) Due(now time.Time) bool { return s.display.isDue(now) }

// Show shows the status of the cluster.
func (s screen) Show(ctx context.Context, cluster fleet.Cluster, now time.Time) error {
	status := inspect.NewStatus(cluster, now)
	s.times.FillStatus(ctx, &status)
	return s.display.show(status, now)
}

// Problem shows why the screen is not current.
func (s screen) Problem(err error) error {
	return s.display.showMessage("waiting for the cluster: " + err.Error())
}
