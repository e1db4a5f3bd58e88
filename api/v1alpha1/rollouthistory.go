package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxRolloutHistory is how many ended rollouts a pool remembers.
const MaxRolloutHistory = 20

// RolloutOutcome says how the rollout of one config to one pool ended. RolloutHistoryAnnotation on the pool has a list of them.
// The rollout of the config that the pool should run now is in its RolloutRecord instead.
type RolloutOutcome struct {
	// Requester is who asked for the config.
	Requester `json:",inline"`
	// Config is the rendered config.
	Config string `json:"config"`
	// Result of the rollout.
	Result RolloutResult `json:"result"`
	// Updated of Nodes ran the config when the rollout ended or was replaced.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Failed nodes reported a failure of the config when the rollout ended or was replaced.
	Failed int `json:"failed,omitempty"`
	// Began is when the config became the pool's target, Ended when the rollout completed, halted, reverted or was replaced.
	Began metav1.Time `json:"began"`
	Ended metav1.Time `json:"ended"`
	// UpdatedBefore is how many nodes of the pool ran the config already when it became the target.
	UpdatedBefore int `json:"updatedBefore,omitempty"`
	// Back is the config that a Reverted pool went back to.
	Back string `json:"back,omitempty"`
	// Why it was halted or reverted, in at most 200 characters.
	Why string `json:"why,omitempty"`
}

// HasVerdict reports whether the rollout ended before its time: it was halted or reverted.
func (o RolloutOutcome) HasVerdict() bool {
	return o.Result == RolloutWasHalted || o.Result == RolloutWasReverted
}

// RolloutResult is how a rollout ended.
type RolloutResult string

// Values of RolloutResult.
const (
	// RolloutCompleted: every node of the pool ran the config and was healthy.
	RolloutCompleted RolloutResult = "RolledOut"
	// RolloutWasHalted: too many nodes failed the config.
	RolloutWasHalted RolloutResult = "Halted"
	// RolloutWasReverted: too many nodes failed the config, and the pool went back.
	RolloutWasReverted RolloutResult = "Reverted"
	// RolloutSuperseded: another config became the pool's target before all nodes ran this one.
	RolloutSuperseded RolloutResult = "Superseded"
)

// ParseRolloutHistory reads RolloutHistoryAnnotation, newest first; an empty text is no history.
func ParseRolloutHistory(text string) ([]RolloutOutcome, error) {
	if text == "" {
		return nil, nil
	}
	var out []RolloutOutcome
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", RolloutHistoryAnnotation, err)
	}
	return out, nil
}

// AddRolloutOutcome returns the annotation's text with an outcome on top of the history that it had. A history that cannot be
// read begins anew.
func AddRolloutOutcome(text string, o RolloutOutcome) string {
	history, err := ParseRolloutHistory(text)
	if err != nil {
		history = nil
	}
	history = append([]RolloutOutcome{o}, history...)
	raw, err := json.Marshal(history[:min(len(history), MaxRolloutHistory)])
	if err != nil {
		return "" // it consists of texts, numbers and times, which always marshal
	}
	return string(raw)
}
