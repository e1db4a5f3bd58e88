package state

import (
	"encoding/json"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// How many attempts with the same result the daemon makes before it gives up a config. One or two failures may be the
// effect of power cuts.
const (
	maxNotBooted   = 2
	maxInterrupted = 3
	// MaxHealthChecks is how often the health check of one attempt may be interrupted.
	MaxHealthChecks = 3
)

// Attempts counts the attempts to apply a config that a power cut may have ended. The daemon stores the Count in files
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

// file is a count with its config, as the packages apply and firstboot store it.
type file struct {
	Config string `json:"config"`
	Attempts
	// Reboots has the value of NotBooted in a file of an earlier version.
	Reboots int `json:"reboots,omitempty"`
}

// ParseAttempts reads the count of a config from a file. The count is zero if the file is about another config, or if a
// power cut left the file incomplete.
func ParseAttempts(text []byte, config string) Attempts {
	var f file
	if json.Unmarshal(text, &f) != nil || f.Config != config {
		return Attempts{}
	}
	f.NotBooted += f.Reboots
	return f.Attempts
}

// Encode returns the content of the file with the count of a config.
func (c Attempts) Encode(config string) ([]byte, error) {
	return json.Marshal(file{Config: config, Attempts: c})
}
