package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy says how carefully pools are rolled out: how many nodes at a time, in which steps, when, and what happens
// when nodes fail. A pool that no policy selects is rolled out as its own maxUnavailable says, and nothing else.
//
// Where several policies select a pool, each field is taken from the one that speaks of the pool most closely: a policy
// that names it before one that selects it by labels, and that before one for all pools; among equals the first by name.
// Windows, gates, after and maxUnavailableTogether add up instead: each policy's counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.spec.pools`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutPolicySpec `json:"spec"`
}

// RolloutPolicyList is a list of RolloutPolicy.
//
// +kubebuilder:object:root=true
type RolloutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutPolicy `json:"items"`
}

// RolloutPolicySpec selects pools and says how they are rolled out. A policy without pools and without a selector is for
// every pool.
type RolloutPolicySpec struct {
	RolloutPools  `json:",inline"`
	RolloutBudget `json:",inline"`

	// Canary are the first nodes to get a new config.
	Canary *RolloutCanary `json:"canary,omitempty"`
	// Batches are the steps after the canary, each up to more nodes than the one before; what is left is the last one.
	// +kubebuilder:validation:MaxItems=50
	Batches []RolloutBatch `json:"batches,omitempty"`
	// Gates are asked before a rollout goes on to the next step.
	// +kubebuilder:validation:MaxItems=20
	Gates []HealthGate `json:"gates,omitempty"`
	// Failures says how many nodes may fail a config, and what happens then. Absent: halt after the first.
	Failures *FailureBudget `json:"failures,omitempty"`
	// After names pools that have to be updated to the same commit before this one begins.
	// +listType=set
	After []string `json:"after,omitempty"`
	// Windows say when nodes may be told a new config. None: always.
	// +kubebuilder:validation:MaxItems=50
	Windows []MaintenanceWindow `json:"windows,omitempty"`
	// Drain says what happens to a node whose pods cannot be evicted. Absent: it waits for ever.
	Drain *DrainPolicy `json:"drain,omitempty"`
}

// RolloutPools selects the pools of a policy.
type RolloutPools struct {
	// Pools by name.
	// +listType=set
	Pools []string `json:"pools,omitempty"`
	// MachineConfigPoolSelector selects pools by their labels, beside those of Pools.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
}

// RolloutBudget is how many nodes may be out of service at a time; each is a number or a percentage, read as a pool's
// maxUnavailable is.
type RolloutBudget struct {
	// MaxUnavailable takes the place of the pools' own. The pool master takes it only from a policy that names it: more than one
	// control plane node at a time can cost the cluster its quorum.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxUnavailablePerZone is a limit for each topology zone of a pool, beside that of the pool; a percentage is of the
	// pool's nodes in the zone. Nodes without a zone count as one.
	MaxUnavailablePerZone *intstr.IntOrString `json:"maxUnavailablePerZone,omitempty"`
	// MaxUnavailableTogether is a limit for the nodes of all pools that the policy selects, counted together.
	MaxUnavailableTogether *intstr.IntOrString `json:"maxUnavailableTogether,omitempty"`
}

// RolloutCanary is a first step of few nodes. Exactly one of nodes and nodeSelector is given.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) != has(self.nodeSelector)",message="give either nodes or nodeSelector"
type RolloutCanary struct {
	// Nodes is how many, in the order in which nodes are told; a percentage is rounded up.
	Nodes *intstr.IntOrString `json:"nodes,omitempty"`
	// NodeSelector picks them by their labels; all nodes of the pool that it matches are told first.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Soak is how long the canaries have to be well, and the gates open, before others are told.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Soak metav1.Duration `json:"soak,omitempty"`
}

// RolloutBatch is a step of a rollout.
type RolloutBatch struct {
	// UpTo is how many nodes of the pool run the new config at the end of the step, those of the steps before counted; a
	// percentage is rounded up.
	UpTo intstr.IntOrString `json:"upTo"`
	// Soak is how long they have to be well, and the gates open, before the next step begins.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Soak metav1.Duration `json:"soak,omitempty"`
}

// HealthGate is one question about health. Exactly one of ready, daemonSets, job and prometheus is given. The first two
// are asked of each updated node, which keeps its place in the budget until they are answered well; a job is run once at
// the end of each step; a query is asked before any node is told.
//
// +kubebuilder:validation:XValidation:rule="[has(self.ready), has(self.daemonSets), has(self.job), has(self.prometheus)].filter(x, x).size() == 1",message="give exactly one of ready, daemonSets, job and prometheus"
type HealthGate struct {
	// Name of the gate, for people.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ready: an updated node has been Ready for some time.
	Ready *ReadyGate `json:"ready,omitempty"`
	// DaemonSets: their pods on an updated node are ready.
	// +kubebuilder:validation:MaxItems=20
	DaemonSets []ObjectName `json:"daemonSets,omitempty"`
	// Job: a job made from a CronJob, by habit a suspended one, succeeds. One that fails counts as a failed node.
	Job *JobGate `json:"job,omitempty"`
	// Prometheus: a query's answer is true.
	Prometheus *PrometheusGate `json:"prometheus,omitempty"`
}

// ReadyGate asks for how long a node is Ready.
type ReadyGate struct {
	// For is how long without a break.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	For metav1.Duration `json:"for"`
}

// ObjectName names an object in a namespace.
type ObjectName struct {
	// Namespace of the object.
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// JobGate runs a job.
type JobGate struct {
	// CronJob whose jobTemplate is run. It has to carry the label bunsen.dev/gate: "true", by which those who may write it let
	// gates run it. The job's pods get the environment variables BUNSEN_POOL, BUNSEN_CONFIG and
	// BUNSEN_STEP.
	CronJob ObjectName `json:"cronJob"`
}

// PrometheusGate asks a server that speaks Prometheus' HTTP API.
type PrometheusGate struct {
	// URL of the server, such as http://prometheus.monitoring.svc:9090.
	// +kubebuilder:validation:Pattern=`^https?://`
	URL string `json:"url"`
	// Query in PromQL. It is true where it answers at least one sample and none of them is 0. A comparison drops the samples
	// for which it is false, so write `bool` after its operator, and `or vector(0)` where there may be no sample at all:
	// (sum(errors) or vector(0)) < bool 1. A server that cannot be reached is not an answer: the rollout waits.
	// +kubebuilder:validation:MinLength=1
	Query string `json:"query"`
}

// FailureBudget says how many failures end a rollout, and how.
type FailureBudget struct {
	// After is how many nodes have failed the new config when the rollout ends.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	After int32 `json:"after,omitempty"`
	// Action at that moment.
	// +kubebuilder:default=Halt
	Action FailureAction `json:"action,omitempty"`
	// NodeDeadline is how long a node that was told a config may be not Ready before it counts as failed. Absent: for ever.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	NodeDeadline *metav1.Duration `json:"nodeDeadline,omitempty"`
}

// FailureAction is what happens when too many nodes failed a config.
//
// +kubebuilder:validation:Enum=Halt;Revert
type FailureAction string

// Values of FailureAction.
const (
	// FailureHalt tells no further node. A new config, or `bunsen retry pool/NAME`, goes on.
	FailureHalt FailureAction = "Halt"
	// FailureRevert brings the nodes that were told the config back to the last one that the whole pool ran. Git still names
	// the config that failed: a new commit goes on.
	FailureRevert FailureAction = "Revert"
)

// MaintenanceWindow is a time that comes again. A node that was told a config goes on after its window has closed. Nodes
// that are out of service because they failed another config are told a new one at any time.
//
// Deny wins over Allow; with no Allow window at all, every time that no Deny window covers is allowed.
type MaintenanceWindow struct {
	// Name of the window, for people.
	Name string `json:"name,omitempty"`
	// Kind of the window.
	// +kubebuilder:default=Allow
	Kind WindowKind `json:"kind,omitempty"`
	// Schedule is when it opens: five fields of cron, or @daily, @weekly and so on.
	// +kubebuilder:validation:MinLength=1
	Schedule string `json:"schedule"`
	// Duration is how long it stays open, in elapsed time.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Duration metav1.Duration `json:"duration"`
	// TimeZone of the schedule, by its IANA name.
	// +kubebuilder:default=UTC
	TimeZone string `json:"timeZone,omitempty"`
	// From is when the window may open for the first time; absent: always. What lies before is cut off.
	From *metav1.Time `json:"from,omitempty"`
	// Until is when it closes for the last time; absent: never. An Allow window that is over keeps the rest closed.
	Until *metav1.Time `json:"until,omitempty"`
}

// WindowKind is what a window does.
//
// +kubebuilder:validation:Enum=Allow;Deny
type WindowKind string

// Values of WindowKind.
const (
	WindowAllow WindowKind = "Allow"
	WindowDeny  WindowKind = "Deny"
)

// DrainPolicy says what happens to a drain that PodDisruptionBudgets, or pods that do not end, hold up.
type DrainPolicy struct {
	// WhenBlocked is what happens once After is over.
	// +kubebuilder:default=Wait
	WhenBlocked DrainAction `json:"whenBlocked,omitempty"`
	// After is how long a drain is tried first.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	After metav1.Duration `json:"after,omitempty"`
}

// DrainAction is what happens to a drain that takes too long.
//
// +kubebuilder:validation:Enum=Wait;MoveOn;Delete
type DrainAction string

// Values of DrainAction.
const (
	// DrainWait goes on for ever, and says ever louder what for.
	DrainWait DrainAction = "Wait"
	// DrainMoveOn gives the node back to its pods and takes another one; the node comes again after all others.
	DrainMoveOn DrainAction = "MoveOn"
	// DrainDelete deletes the pods that are left, past their PodDisruptionBudgets.
	DrainDelete DrainAction = "Delete"
)
