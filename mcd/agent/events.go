package agent

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/mcd/report"
)

// Events writes Kubernetes events about the Node. Events returns at once; events that cannot be written are lost.
type Events interface {
	// Event reports one event. The message contains no secrets.
	Event(reason report.EventReason, message string)
}

// Metrics has the daemon's metrics.
type Metrics interface {
	// State records the state and the reason that the agent reported on the Node.
	State(state, reason string)
	// Update records how the last update ended; nil is success.
	Update(config string, err error)
	// Drift records when the drift began; the zero time means that there is no drift.
	Drift(at time.Time)
	// Reboot records a request to reboot the machine. An error means that the machine did not accept the request.
	Reboot(err error)
	// Pivot records why a part of the OS could not be staged.
	Pivot(err error)
	// Boot records which OS runs.
	Boot(os, version string)
}

// event emits an event if Events is set.
func (c Config) event(reason report.EventReason, format string, args ...any) {
	if c.Events != nil {
		c.Events.Event(reason, fmt.Sprintf(format, args...))
	}
}
