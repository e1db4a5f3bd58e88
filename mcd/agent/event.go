package agent

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// Events writes Kubernetes events about the Node. It returns at once; what cannot be written is lost in the end.
type Events interface {
	// Event tells of one thing that happened. The message holds no secrets.
	Event(reason protocol.Reason, message string)
}

// Metrics counts for whoever scrapes the node.
type Metrics interface {
	// State is what the Node was told.
	State(state, reason string)
	// Update is how the last update ended; nil is well.
	Update(config string, err error)
	// Drift was found at a time; the zero time: there is none.
	Drift(at time.Time)
	// Reboot was asked for; with an error it was not accepted.
	Reboot(err error)
	// Pivot was why a part of the OS could not be staged.
	Pivot(err error)
	// Boot tells which OS runs.
	Boot(os, version string)
}

// event tells whoever listens.
func (c Config) event(reason protocol.Reason, format string, args ...any) {
	if c.Events != nil {
		c.Events.Event(reason, fmt.Sprintf(format, args...))
	}
}
