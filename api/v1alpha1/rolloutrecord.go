package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutRecord is the state of the rollout of one config in one pool that must survive a restart of the controller.
// RolloutAnnotation on the pool has it as JSON. The controller reads the rest from the nodes. Writer: the controller.
type RolloutRecord struct {
	// Config is the rendered config of the record. The record has no meaning for another config.
	Config string `json:"config"`
	// RecordedSecrets are revisions of secrets; zero in a cluster without secrets.
	RecordedSecrets `json:",inline"`
	// Began is when the config, with its secrets, became the pool's target, or when a retry or a recovery began. For a
	// pool without nodes it is when the first node came.
	Began metav1.Time `json:"began"`
	// Empty is true if the pool has had no node since the config became its target.
	Empty bool `json:"empty,omitempty"`
	// Before is the config that was the pool's target before; empty if there was none.
	Before string `json:"before,omitempty"`
	// UpdatedBefore is how many nodes of the pool already ran the config when it became the target.
	UpdatedBefore int `json:"updatedBefore,omitempty"`
	// Steps is the number of completed steps, including the canary.
	Steps int `json:"steps,omitempty"`
	// WellSince is the start of the current step's soak: the time since which all nodes of the step are updated and
	// healthy.
	WellSince *metav1.Time `json:"wellSince,omitempty"`
	// RolloutEnd is how the rollout failed; zero if it did not.
	RolloutEnd `json:",inline"`
	// Requester is who requested the config when it became the pool's target.
	Requester `json:",inline"`
	// Healthy is the last config with which the whole pool, at least one node, was healthy and passed the health gates.
	// Each new record copies Healthy from the record before.
	Healthy string `json:"healthy,omitempty"`
	// Forgiven lists nodes whose failure does not count, because they had already failed when the controller assigned
	// the config to them, or when a user requested a retry. A node leaves the list as soon as it no longer fails.
	// `NAME/away` means that only its missing Ready condition does not count. `NAME/again` means that the node tries
	// the config again after a retry. The rest of the pool waits until that node is healthy, for at most five minutes.
	Forgiven []string `json:"forgiven,omitempty"`
	// Ended is when the whole pool, at least one node, ran the config and was healthy.
	Ended *metav1.Time `json:"ended,omitempty"`
	// Fetches is true if nodes have to download files of the config that the last healthy config does not have. The
	// controller then assigns the config only to nodes that have them.
	Fetches bool `json:"fetches,omitempty"`
}

// RecordedSecrets are the revisions of secrets that belong to the configs of a RolloutRecord.
type RecordedSecrets struct {
	// Secrets is the revision of the secrets of Config. The record has no meaning for another revision. It is empty if
	// the config refers to no secrets.
	Secrets string `json:"secrets,omitempty"`
	// HealthySecrets is the revision of the secrets of Healthy.
	HealthySecrets string `json:"healthySecrets,omitempty"`
}

// Target returns Config and its secrets.
func (r RolloutRecord) Target() ConfigVersion { return NewConfigVersion(r.Config, r.Secrets) }

// LastHealthy returns Healthy and its secrets.
func (r RolloutRecord) LastHealthy() ConfigVersion {
	return NewConfigVersion(r.Healthy, r.HealthySecrets)
}

// ReturnsTo returns Back and its secrets.
func (r RolloutRecord) ReturnsTo() ConfigVersion { return NewConfigVersion(r.Back, r.BackSecrets) }

// ChangesSecrets reports whether only the secrets of the config are new to the pool: it was healthy with the config and
// other secrets.
func (r RolloutRecord) ChangesSecrets() bool {
	return r.Config != "" && r.Config == r.Healthy && r.Secrets != r.HealthySecrets
}

// SetTarget sets Config and Secrets.
func (r *RolloutRecord) SetTarget(v ConfigVersion) { r.Config, r.Secrets = v.Config, v.Secrets }

// SetLastHealthy sets Healthy and HealthySecrets.
func (r *RolloutRecord) SetLastHealthy(v ConfigVersion) {
	r.Healthy, r.HealthySecrets = v.Config, v.Secrets
}

// SetReturnsTo sets Back and BackSecrets.
func (r *RolloutRecord) SetReturnsTo(v ConfigVersion) { r.Back, r.BackSecrets = v.Config, v.Secrets }

// RolloutEnd is how a rollout failed.
type RolloutEnd struct {
	// Verdict on the config; empty while there is none.
	Verdict RolloutVerdict `json:"verdict,omitempty"`
	// Back is the config to which a Reverted pool returns.
	Back string `json:"back,omitempty"`
	// BackSecrets is the revision of the secrets of Back; empty if Back refers to no secrets.
	BackSecrets string `json:"backSecrets,omitempty"`
	// Why is the failures that caused the verdict, for users.
	Why string       `json:"why,omitempty"`
	At  *metav1.Time `json:"at,omitempty"`
	// Updated is how many nodes ran the config at the time of the verdict. Those of a Reverted pool return to Back.
	Updated int `json:"updated,omitempty"`
	// Failed are the first nodes that failed, at most three; none if a health gate failed.
	Failed []FailedNode `json:"failed,omitempty"`
	// Gate is the name of the health gate that failed; empty if nodes failed.
	Gate string `json:"gate,omitempty"`
}

// RolloutVerdict is how a rollout failed.
type RolloutVerdict string

// Values of RolloutVerdict.
const (
	// RolloutHalted means that no further node gets the config.
	RolloutHalted RolloutVerdict = "Halted"
	// RolloutReverted means that the nodes with the config return to the last healthy one.
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

// String returns the value of RolloutAnnotation. It is empty for the zero record.
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

// DrainReport is what a drain does about each pod of a node. DrainReportAnnotation on the Node has it as JSON during
// the drain. Writer: the controller.
type DrainReport struct {
	// For is the rendered config of the update.
	For     string      `json:"for"`
	Started metav1.Time `json:"started"`
	// Alone is true if no pod is evicted, because no other node of the cluster can run it.
	Alone bool `json:"alone,omitempty"`
	// Pods are the pods that are not gone, those that block the drain first.
	Pods []DrainedPod `json:"pods,omitempty"`
	// More is how many pods the report omits, because it would become too long.
	More int `json:"more,omitempty"`
}

// DrainedPod is one pod of a node that is drained.
type DrainedPod struct {
	// Pod is namespace/name.
	Pod   string          `json:"pod"`
	State DrainedPodState `json:"state"`
	// Why is, for users, why the drain skips it, or what it waits for.
	Why string `json:"why,omitempty"`
	// Budget is namespace/name of the PodDisruptionBudget that prevents its eviction.
	Budget string `json:"budget,omitempty"`
	// Never is true if that budget never allows an eviction. A user must change it.
	Never bool `json:"never,omitempty"`
	// Unhealthy is a pod of that budget that is not healthy. Once it is, the budget may allow the eviction. Absent if
	// there is none, or if it is not known.
	Unhealthy *UnhealthyPod `json:"unhealthy,omitempty"`
	// Since is the start of the state; absent if unknown.
	Since *metav1.Time `json:"since,omitempty"`
}

// UnhealthyPod is a pod that a PodDisruptionBudget selects and that is not healthy.
type UnhealthyPod struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// Pending is true if the pod has no node yet.
	Pending bool `json:"pending,omitempty"`
	// Reason is why, as one word: that of the scheduler, such as Unschedulable, that of a container, such as
	// ImagePullBackOff, or else that of the condition Ready. Absent if nothing is known.
	Reason string `json:"reason,omitempty"`
	// Message is why, for users: the sentence of the scheduler or of the kubelet, shortened to one line.
	Message string `json:"message,omitempty"`
	// More is how many other pods of the budget are not healthy.
	More int `json:"more,omitempty"`
}

// DrainedPodState is the progress of a pod's eviction.
type DrainedPodState string

// Values of DrainedPodState.
const (
	PodSkipped DrainedPodState = "Skipped"
	// PodEvicted means that the controller evicted the pod, and it is terminating.
	PodEvicted DrainedPodState = "Evicted"
	// PodWaiting means that something prevents its eviction.
	PodWaiting DrainedPodState = "Waiting"
	// PodDeleted means that the controller deleted the pod despite its PodDisruptionBudget, because of the pool's
	// RolloutPolicy.
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
