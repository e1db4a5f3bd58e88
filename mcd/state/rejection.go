package state

import (
	"context"
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
	// Count counts the attempts that a power cut may have ended.
	Attempts
	// Attempt is the last attempt that was counted, so that each attempt counts once.
	Attempt string `json:"attempt,omitempty"`
	// Retry is the time of the Node's retry request at the start of the attempt. This request starts no further
	// attempt.
	Retry time.Time `json:"retry,omitzero"`
}

// IsFinal reports whether the rejection stops the config from being applied again.
func (v *Rejection) IsFinal() bool { return v != nil && !v.Retries }

// IsRetryRequested reports whether the Node requests a retry after the rejection. A request that an earlier attempt
// answered does not count again, even if its time is in the future.
func (v *Rejection) IsRetryRequested(asked time.Time) bool {
	return asked.After(v.Time) && !asked.Equal(v.Retry)
}

// Rejection returns the stored rejection, final or not; nil for none.
func (f Files) Rejection() (*Rejection, error) { return read[Rejection](f, RejectionPath) }

// ConfirmRejection records that the machine reached the API server with the old config.
func (f Files) ConfirmRejection(ctx context.Context, v Rejection) error {
	if !v.Unconfirmed {
		return nil
	}
	v.Unconfirmed = false
	return f.Save(ctx, RejectionPath, v)
}
