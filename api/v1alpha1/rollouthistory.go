package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxRolloutHistory is how many ended rollouts the annotation of a pool contains.
const MaxRolloutHistory = 20

// RolloutOutcome is the result of the rollout of one config in one pool. RolloutHistoryAnnotation on the pool has a
// list of them. The RolloutRecord has the rollout of the pool's target config.
type RolloutOutcome struct {
	// Requester is who requested the config.
	Requester `json:",inline"`
	// Config is the rendered config.
	Config string `json:"config"`
	// Secrets is the revision of the config's secrets; empty if it refers to none.
	Secrets string `json:"secrets,omitempty"`
	// Result of the rollout.
	Result RolloutResult `json:"result"`
	// Updated is how many of the pool's Nodes ran the config when the rollout ended or another config replaced it.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Failed is how many nodes reported a failure of the config at that time.
	Failed int `json:"failed,omitempty"`
	// Began is when the config became the pool's target, Ended when the rollout completed, halted, reverted or was
	// replaced.
	Began metav1.Time `json:"began"`
	Ended metav1.Time `json:"ended"`
	// UpdatedBefore is how many nodes of the pool already ran the config when it became the target.
	UpdatedBefore int `json:"updatedBefore,omitempty"`
	// Back is the config to which a Reverted pool returned.
	Back string `json:"back,omitempty"`
	// Why is the reason of a halt or a revert, in at most 200 characters.
	Why string `json:"why,omitempty"`
}

// HasVerdict reports whether the rollout was halted or reverted.
func (o RolloutOutcome) HasVerdict() bool {
	return o.Result == RolloutWasHalted || o.Result == RolloutWasReverted
}

// RolloutResult is how a rollout ended.
type RolloutResult string

// Values of RolloutResult.
const (
	// RolloutCompleted means that every node of the pool ran the config and was healthy.
	RolloutCompleted RolloutResult = "RolledOut"
	// RolloutWasHalted means that too many nodes failed the config.
	RolloutWasHalted RolloutResult = "Halted"
	// RolloutWasReverted means that too many nodes failed the config, and the pool was reverted.
	RolloutWasReverted RolloutResult = "Reverted"
	// RolloutSuperseded means that another config became the pool's target before all nodes ran this one.
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

// AddRolloutOutcome returns the annotation's text with an outcome added as the newest. If the earlier history is
// invalid, it begins again.
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
