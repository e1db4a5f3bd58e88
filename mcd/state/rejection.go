package state

import (
	"encoding/json"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// RejectionPath is the file with the config that this machine rejected.
const RejectionPath = host.StateDir + "/rejected.json"

// Rejection is a config that the machine rejected. The agent does not apply it again until another config is desired,
// the Node requests a retry, or a user creates the force file.
type Rejection struct {
	// Config is the name of the config.
	Config string `json:"config"`
	// Why is the reason, as reported on the Node.
	Why string `json:"why"`
	// Problem is the reason without the config, its commit and the advice. Problem is empty in a rejection that an
	// older daemon stored.
	Problem string `json:"problem,omitempty"`
	// Time of the rejection.
	Time time.Time `json:"time"`
	// Unconfirmed is true until the machine has reached the API server with the old config. If the daemon cannot reach
	// the API server with the old config either, the new config is not the cause.
	Unconfirmed bool `json:"doubtful,omitempty"`
	// Retries is true while the agent still retries the config, because the cause may be a power cut. A power cut can
	// interrupt an update, and a power cut during the reboot can remove a staged OS.
	Retries bool `json:"again,omitempty"`
	// Attempts counts the attempts that a power cut may have ended.
	Attempts
	// Attempt is the last attempt that was counted, so that each attempt counts once.
	Attempt string `json:"attempt,omitempty"`
	// Retry is the time of the Node's retry request at the start of the attempt, or zero for none. This request starts
	// no further attempt. RetryKnown is false if it is not known.
	Retry      time.Time `json:"retry,omitzero"`
	RetryKnown bool      `json:"retryKnown,omitempty"`
}

// IsFinal reports whether the rejection stops the config from being applied again.
func (v *Rejection) IsFinal() bool { return v != nil && !v.Retries }

// IsRetryRequested reports whether the Node requests a retry that no attempt has answered. Its time may be before the
// rejection, because the clock of whoever requests it may be behind that of the machine.
func (v *Rejection) IsRetryRequested(asked time.Time) bool {
	if !v.RetryKnown {
		return asked.After(v.Time)
	}
	return !asked.IsZero() && !asked.Equal(v.Retry)
}

// How many attempts with the same result the daemon makes before it gives up a config. One or two failures may be the
// effect of power cuts.
const (
	maxNotBooted   = 2
	maxInterrupted = 3
	// MaxHealthChecks is how often the health check of one attempt may be interrupted.
	MaxHealthChecks = 3
)

// Attempts counts the attempts to apply a config that a power cut may have ended. The daemon stores it in files
// on the node.
type Attempts struct {
	// NotBooted counts the reboots after which the staged OS did not run.
	NotBooted int `json:"notBooted,omitempty"`
	// Interrupted counts the attempts during which the machine or the daemon went down before the last step.
	Interrupted int `json:"interrupted,omitempty"`
}

// Add returns the count with one more attempt. Add ignores causes that cannot be a power cut.
func (c Attempts) Add(cause host.Cause) Attempts {
	switch cause {
	case host.NotBooted:
		c.NotBooted++
	case host.Interrupted:
		c.Interrupted++
	}
	return c
}

// IsExhausted reports whether the daemon gives up the config.
func (c Attempts) IsExhausted() bool {
	return c.NotBooted >= maxNotBooted || c.Interrupted >= maxInterrupted
}

// Fruitless returns the number of attempts that delay the next attempt. Fruitless does not include the first
// interruption, which is treated as a power cut.
func (c Attempts) Fruitless() int { return c.NotBooted + max(0, c.Interrupted-1) }

// file is a count with its config, as the package once stores it.
type file struct {
	Config string `json:"config"`
	Attempts
}

// ParseAttempts reads the count of a config from a file. The count is zero if the file is about another config, or if a
// power cut left the file incomplete.
func ParseAttempts(text []byte, config string) Attempts {
	var f file
	if json.Unmarshal(text, &f) != nil || f.Config != config {
		return Attempts{}
	}
	return f.Attempts
}

// Encode returns the content of the file with the count of a config.
func (c Attempts) Encode(config string) ([]byte, error) {
	return json.Marshal(file{Config: config, Attempts: c})
}
