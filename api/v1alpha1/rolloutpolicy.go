package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy configures how the controller rolls out a config: how many nodes at a time, in which steps, when, and
// what happens when nodes fail. If no policy selects a pool, only the pool's own maxUnavailable counts.
//
// If several policies select a pool, the controller takes each field from the closest one. A policy that names the pool
// comes before one that selects it by labels, and that one before a policy for all pools. Among equals the first by
// name counts. The fields windows, gates, after and maxUnavailableTogether of all policies count together.
//
// RolloutPolicy has no status: the conditions of the pool report the rollout.
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

// RolloutPolicySpec selects pools and configures their rollouts. A policy without pools and without a selector selects
// every pool.
type RolloutPolicySpec struct {
	RolloutPools  `json:",inline"`
	RolloutBudget `json:",inline"`

	// Canary selects the first nodes that get a new config.
	Canary *RolloutCanary `json:"canary,omitempty"`
	// Batches are the steps after the canary. Each goes up to more nodes than the one before. The remaining nodes are
	// the last step.
	// +kubebuilder:validation:MaxItems=50
	Batches []RolloutBatch `json:"batches,omitempty"`
	// Gates are checks that must succeed before the rollout continues.
	// +kubebuilder:validation:MaxItems=20
	Gates []HealthGate `json:"gates,omitempty"`
	// Failures sets after how many failed nodes a rollout ends, and how. Absent means: halt after the first.
	Failures *FailureBudget `json:"failures,omitempty"`
	// After names the pools that must be updated to the same commit before this pool's rollout begins.
	// +listType=set
	After []string `json:"after,omitempty"`
	// Windows are the times at which the controller assigns a new config to nodes. Absent means: always.
	// +kubebuilder:validation:MaxItems=50
	Windows []MaintenanceWindow `json:"windows,omitempty"`
	// Drain sets what happens to a node whose pods cannot be evicted. Absent means: the drain waits without limit.
	Drain *DrainPolicy `json:"drain,omitempty"`
}

// RolloutPools selects the pools of a policy.
type RolloutPools struct {
	// Pools are the names of the selected pools.
	// +listType=set
	Pools []string `json:"pools,omitempty"`
	// MachineConfigPoolSelector selects more pools by their labels.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
}

// RolloutBudget is how many nodes may be out of service at a time. Each field is a number or a percentage, as a pool's
// maxUnavailable.
type RolloutBudget struct {
	// MaxUnavailable replaces the maxUnavailable of the pools. The pool master takes it only from a policy that names
	// master: more than one control plane node at a time can cost the cluster its quorum.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxUnavailablePerZone is an additional limit for each topology zone of a pool. A percentage is of the pool's
	// nodes in the zone. Nodes without a zone count as one zone.
	MaxUnavailablePerZone *intstr.IntOrString `json:"maxUnavailablePerZone,omitempty"`
	// MaxUnavailableTogether is an additional limit for the nodes of all selected pools together.
	MaxUnavailableTogether *intstr.IntOrString `json:"maxUnavailableTogether,omitempty"`
}

// RolloutCanary is the first step. Set exactly one of nodes and nodeSelector.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) != has(self.nodeSelector)",message="give either nodes or nodeSelector"
type RolloutCanary struct {
	// Nodes is the number of nodes, in the order of the rollout. A percentage is rounded up.
	Nodes *intstr.IntOrString `json:"nodes,omitempty"`
	// NodeSelector selects nodes of the pool by their labels. All of them get the config first.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Soak is how long the canary nodes must be healthy, and the gates must succeed, before the next step.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Soak metav1.Duration `json:"soak,omitempty"`
}

// RolloutBatch is a step of a rollout.
type RolloutBatch struct {
	// UpTo is how many nodes of the pool run the new config at the end of the step, including those of earlier steps. A
	// percentage is rounded up.
	UpTo intstr.IntOrString `json:"upTo"`
	// Soak is how long these nodes must be healthy, and the gates must succeed, before the next step.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Soak metav1.Duration `json:"soak,omitempty"`
}

// HealthGate is one check. Set exactly one of ready, daemonSets, job and prometheus. The controller checks ready and
// daemonSets for each updated node; until they succeed, the node counts as unavailable in the budget. It runs a job
// once at the end of each step. It sends a query before it assigns the config to a node.
//
// +kubebuilder:validation:XValidation:rule="[has(self.ready), has(self.daemonSets), has(self.job), has(self.prometheus)].filter(x, x).size() == 1",message="give exactly one of ready, daemonSets, job and prometheus"
type HealthGate struct {
	// Name is the name of the gate in messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ready succeeds if an updated node has been Ready for some time.
	Ready *ReadyGate `json:"ready,omitempty"`
	// DaemonSets succeeds if the pods of these DaemonSets on an updated node are ready.
	// +kubebuilder:validation:MaxItems=20
	DaemonSets []ObjectName `json:"daemonSets,omitempty"`
	// Job succeeds if a job that the controller creates from a CronJob succeeds. The CronJob is usually suspended. A
	// job that fails counts as a failed node.
	Job *JobGate `json:"job,omitempty"`
	// Prometheus succeeds if the result of a query is true.
	Prometheus *PrometheusGate `json:"prometheus,omitempty"`
}

// ReadyGate checks for how long a node has been Ready.
type ReadyGate struct {
	// For is how long the node must be Ready without interruption.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	For metav1.Duration `json:"for"`
}

// ObjectName names an object in a namespace.
type ObjectName struct {
	// Namespace is the namespace of the object.
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// Name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// JobGate runs a job.
type JobGate struct {
	// CronJob names the CronJob whose jobTemplate the controller runs. It needs the label bunsen.dev/gate: "true", with
	// which its owners allow gates to run it. The job's pods get the environment variables BUNSEN_POOL, BUNSEN_CONFIG
	// and BUNSEN_STEP.
	CronJob ObjectName `json:"cronJob"`
}

// PrometheusGate sends a query to a server with the HTTP API of Prometheus.
type PrometheusGate struct {
	// URL is the address of the server, such as http://prometheus.monitoring.svc:9090.
	// +kubebuilder:validation:Pattern=`^https?://`
	URL string `json:"url"`
	// Query is a PromQL query. It is true if it returns at least one sample and no sample is 0. A comparison drops
	// samples for which it is false, so write `bool` after its operator. If there may be no sample, write `or
	// vector(0)`: (sum(errors) or vector(0)) < bool 1. If the server does not answer, the rollout waits.
	// +kubebuilder:validation:MinLength=1
	Query string `json:"query"`
}

// FailureBudget sets how many failures end a rollout, and how.
type FailureBudget struct {
	// After is the number of nodes that must fail the new config before the rollout ends.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	After int32 `json:"after,omitempty"`
	// Action is what the controller does then. `Halt` assigns the config to no further node. A new config, or
	// `bunsen retry pool/NAME`, continues. `Revert` assigns the last config that the whole pool ran to the nodes that
	// got the new one. Git still has the failed config: a new commit continues.
	// +kubebuilder:default=Halt
	Action FailureAction `json:"action,omitempty"`
	// NodeDeadline is how long a node with a new config may be not Ready before it counts as failed. Absent means:
	// without limit.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	NodeDeadline *metav1.Duration `json:"nodeDeadline,omitempty"`
}

// FailureAction is what the controller does when too many nodes failed a config.
//
// +kubebuilder:validation:Enum=Halt;Revert
type FailureAction string

// Values of FailureAction.
const (
	// FailureHalt assigns the config to no further node. A new config, or `bunsen retry pool/NAME`, continues.
	FailureHalt FailureAction = "Halt"
	// FailureRevert assigns the last config that the whole pool ran to the nodes that got the new one. Git still has
	// the failed config: a new commit continues.
	FailureRevert FailureAction = "Revert"
)

// MaintenanceWindow is a recurring time. A node that has its new config finishes the update after the window closes.
// Nodes that are out of service because they failed another config get a new one at any time.
//
// Deny overrides Allow. Without an Allow window, every time outside Deny windows is allowed.
type MaintenanceWindow struct {
	// Name is the name of the window in messages.
	Name string `json:"name,omitempty"`
	// Kind is `Allow` (the controller assigns configs during the window) or `Deny` (it does not).
	// +kubebuilder:default=Allow
	Kind WindowKind `json:"kind,omitempty"`
	// Schedule is when the window opens: five cron fields, or @daily, @weekly and so on.
	// +kubebuilder:validation:MinLength=1
	Schedule string `json:"schedule"`
	// Duration is how long the window stays open, in elapsed time.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Duration metav1.Duration `json:"duration"`
	// TimeZone is the IANA name of the schedule's time zone.
	// +kubebuilder:default=UTC
	TimeZone string `json:"timeZone,omitempty"`
	// From is the earliest time at which the window is open. Absent means: no limit. A window that would open earlier
	// opens at this time.
	From *metav1.Time `json:"from,omitempty"`
	// Until is the time from which the window stays closed. Absent means: never. An Allow window that has ended
	// still counts as a window: other times stay closed.
	Until *metav1.Time `json:"until,omitempty"`
}

// WindowKind is whether a window allows or denies.
//
// +kubebuilder:validation:Enum=Allow;Deny
type WindowKind string

// Values of WindowKind.
const (
	WindowAllow WindowKind = "Allow"
	WindowDeny  WindowKind = "Deny"
)

// DrainPolicy sets what happens to a drain that PodDisruptionBudgets, or pods that do not end, block.
type DrainPolicy struct {
	// WhenBlocked is what the controller does when After has passed. `Wait` continues without limit and reports the
	// blocker. `MoveOn` uncordons the node and updates another one; it tries the node again after all others. `Delete`
	// deletes the remaining pods despite their PodDisruptionBudgets.
	// +kubebuilder:default=Wait
	WhenBlocked DrainAction `json:"whenBlocked,omitempty"`
	// After is how long the controller tries to evict the pods first.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	After metav1.Duration `json:"after,omitempty"`
}

// DrainAction is what the controller does about a blocked drain.
//
// +kubebuilder:validation:Enum=Wait;MoveOn;Delete
type DrainAction string

// Values of DrainAction.
const (
	// DrainWait continues without limit and reports the blocker.
	DrainWait DrainAction = "Wait"
	// DrainMoveOn uncordons the node and updates another one. It tries the node again after all others.
	DrainMoveOn DrainAction = "MoveOn"
	// DrainDelete deletes the remaining pods despite their PodDisruptionBudgets.
	DrainDelete DrainAction = "Delete"
)
