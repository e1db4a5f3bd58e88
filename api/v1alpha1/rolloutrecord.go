package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutRecord is what the rollout of one config to one pool must not forget when the controller restarts. It is kept as
// JSON in RolloutAnnotation on the pool; all else about a rollout is read off the nodes. Writer: the controller.
type RolloutRecord struct {
	// Config is the rendered config that all of this is about; the record of another one means nothing.
	Config string `json:"config"`
	// Began is when the config became the pool's target.
	Began metav1.Time `json:"began"`
	// UpdatedBefore is how many nodes of the pool ran the config already at that time.
	UpdatedBefore int `json:"updatedBefore,omitempty"`
	// Steps are how many steps are behind the rollout, the canary counted.
	Steps int `json:"steps,omitempty"`
	// WellSince is since when the nodes of the step under way are updated and well: its soak began then.
	WellSince *metav1.Time `json:"wellSince,omitempty"`
	// RolloutEnd is how the rollout ended before its time; zero while it did not.
	RolloutEnd `json:",inline"`
	// Requester is who asked for the config when it became the pool's target.
	Requester `json:",inline"`
	// Healthy is the last config that every node of the pool, at least one, ran and was well with, health gates included. It is
	// carried from record to record.
	Healthy string `json:"healthy,omitempty"`
	// Forgiven are nodes whose failure does not count: they had failed when they were told the config, or when somebody asked
	// to retry it. They count again once they were seen otherwise. NAME/away forgives only that a node was not Ready. NAME/again
	// says that it is tried again after a retry: the others wait until it is well, for five minutes at most.
	Forgiven []string `json:"forgiven,omitempty"`
	// Ended is when every node of the pool, at least one, ran the config and was well with it.
	Ended *metav1.Time `json:"ended,omitempty"`
}

// RolloutEnd is how a rollout ended before its time.
type RolloutEnd struct {
	// Verdict on the config; empty while there is none.
	Verdict RolloutVerdict `json:"verdict,omitempty"`
	// Back is the config that a Reverted pool goes back to.
	Back string `json:"back,omitempty"`
	// Why has the failures behind the verdict, in words.
	Why string `json:"why,omitempty"`
	// At is when the verdict fell.
	At *metav1.Time `json:"at,omitempty"`
	// Updated is how many nodes ran the config when the verdict fell: those of a Reverted pool go back.
	Updated int `json:"updated,omitempty"`
	// Failed are the first nodes that failed, at most three; none where a health gate failed.
	Failed []FailedNode `json:"failed,omitempty"`
}

// RolloutVerdict is how a rollout ended before its time.
type RolloutVerdict string

// Values of RolloutVerdict.
const (
	// RolloutHalted: no further node is told the config.
	RolloutHalted RolloutVerdict = "Halted"
	// RolloutReverted: the nodes that were told go back.
	RolloutReverted RolloutVerdict = "Reverted"
)

// ParseRolloutRecord reads RolloutAnnotation; an empty text is the zero record.
func ParseRolloutRecord(text string) (RolloutRecord, error) {
	var r RolloutRecord
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return RolloutRecord{}, fmt.Errorf("reading annotation %s: %w", RolloutAnnotation, err)
	}
	return r, nil
}

// String is the record as the annotation spells it; empty for the zero record.
func (r RolloutRecord) String() string {
	if r.Config == "" {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it consists of texts, numbers and times, which always marshal
	}
	return string(text)
}

// DrainReport is what a drain does about each pod of a node, kept as JSON in DrainReportAnnotation on the Node while it is
// under way. Writer: the controller.
type DrainReport struct {
	// For is the rendered config that the node is drained for.
	For string `json:"for"`
	// Started is when the drain began.
	Started metav1.Time `json:"started"`
	// Pods that are not gone, those that hold the drain up first.
	Pods []DrainedPod `json:"pods,omitempty"`
	// More is how many pods are left out of Pods for want of room.
	More int `json:"more,omitempty"`
}

// DrainedPod is one pod of a node that is drained.
type DrainedPod struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// State of the pod.
	State DrainedPodState `json:"state"`
	// Why in words: why it is skipped, or what it waits for.
	Why string `json:"why,omitempty"`
	// Budget is namespace/name of the PodDisruptionBudget that forbids to evict it.
	Budget string `json:"budget,omitempty"`
	// Never: that budget allows no eviction, however healthy its pods are. A person has to change it.
	Never bool `json:"never,omitempty"`
	// Since is since when it is so; absent where that is not known.
	Since *metav1.Time `json:"since,omitempty"`
}

// DrainedPodState is where a pod is on its way out.
type DrainedPodState string

// Values of DrainedPodState.
const (
	// PodSkipped: it stays.
	PodSkipped DrainedPodState = "Skipped"
	// PodEvicted: it was evicted and is terminating.
	PodEvicted DrainedPodState = "Evicted"
	// PodWaiting: something forbids to evict it.
	PodWaiting DrainedPodState = "Waiting"
	// PodDeleted: it was deleted past its PodDisruptionBudget, as the pool's RolloutPolicy says.
	PodDeleted DrainedPodState = "Deleted"
)

// ParseDrainReport reads DrainReportAnnotation; an empty text is the zero report.
func ParseDrainReport(text string) (DrainReport, error) {
	var r DrainReport
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return DrainReport{}, fmt.Errorf("reading annotation %s: %w", DrainReportAnnotation, err)
	}
	return r, nil
}
