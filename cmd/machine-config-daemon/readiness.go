package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// readiness decides whether the daemon works. The kubelet probes the daemon, so that an upgrade of the daemon stops if
// the new daemon does not work.
type readiness struct {
	// reported is true once the daemon has reported the state of its node.
	reported atomic.Bool
	// lastAnswer returns when the API server last answered.
	lastAnswer func() time.Time
	now        func() time.Time
}

// check returns an error that says why the daemon does not work. check tolerates an outage of the API server for the
// same time as the readers of the daemon's heartbeat.
func (r *readiness) check() error {
	if !r.reported.Load() {
		return errors.New("the daemon has not reported the state of its node yet")
	}
	if age := r.now().Sub(r.lastAnswer()); age > v1alpha1.DaemonSilentAfter {
		return fmt.Errorf("the API server has not answered for %s", age.Round(time.Second))
	}
	return nil
}
