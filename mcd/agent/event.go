package agent

import (
	"fmt"
	"time"
)

// Reason is the reason of a Kubernetes event about the Node, spelt as the original's daemon does.
type Reason string

// The reasons. Those from EventRejected on are this project's own.
const (
	EventDrain                Reason = "Drain"
	EventFailedToDrain        Reason = "FailedToDrain"
	EventUncordon             Reason = "Uncordon"
	EventReboot               Reason = "Reboot"
	EventSkipReboot           Reason = "SkipReboot"
	EventServiceReload        Reason = "ServiceReload"
	EventServiceRestart       Reason = "ServiceRestart"
	EventFailedServiceReload  Reason = "FailedServiceReload"
	EventFailedServiceRestart Reason = "FailedServiceRestart"
	EventInClusterUpgrade     Reason = "InClusterUpgrade"
	EventOSUpdateStarted      Reason = "OSUpdateStarted"
	EventOSUpdateStaged       Reason = "OSUpdateStaged"
	EventOSUpgradeApplied     Reason = "OSUpgradeApplied"
	EventFailedToReconcile    Reason = "FailedToReconcile"
	EventNodeDone             Reason = "NodeDone"
	EventBootResync           Reason = "BootResync"
	EventDiskStateFailed      Reason = "OnDiskStateValidationFailed"
	EventPreflightFailed      Reason = "PreflightConfigDriftCheckFailed"
	EventDriftDetected        Reason = "ConfigDriftDetected"
	EventGotSigterm           Reason = "GotSigtermDuringUpdate"
	EventRejected             Reason = "ConfigRejected"
	EventWentBack             Reason = "WentBack"
)

// Warns tells reasons that are events of type Warning.
func (r Reason) Warns() bool {
	switch r {
	case EventFailedToDrain, EventFailedServiceReload, EventFailedServiceRestart, EventFailedToReconcile, EventDiskStateFailed,
		EventPreflightFailed, EventDriftDetected, EventGotSigterm, EventRejected, EventWentBack:
		return true
	}
	return false
}

// Events writes Kubernetes events about the Node. It returns at once; what cannot be written is lost in the end.
type Events interface {
	// Event tells of one thing that happened. The message holds no secrets.
	Event(reason Reason, message string)
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
func (c Config) event(reason Reason, format string, args ...any) {
	if c.Events != nil {
		c.Events.Event(reason, fmt.Sprintf(format, args...))
	}
}
