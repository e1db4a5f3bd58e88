package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BunsenStatus is the state of Bunsen on the whole cluster, for scripts and for `kubectl wait`. The controller creates
// the only object, `cluster`, and writes its status from the pools, the GitSources, the servers and the daemons.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=bunsenstatuses,singular=bunsenstatus,categories=bunsen
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="the only BunsenStatus is named cluster"
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.status.outcome`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Upgradeable",type=string,JSONPath=`.status.conditions[?(@.type=="Upgradeable")].status`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type BunsenStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status ClusterStatus `json:"status,omitempty"`
}

// BunsenStatusList is a list of BunsenStatus.
//
// +kubebuilder:object:root=true
type BunsenStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BunsenStatus `json:"items"`
}

// ClusterStatus summarizes the pools, the GitSources and the programs of Bunsen.
type ClusterStatus struct {
	// ObservedGeneration is the generation of the object that this status belongs to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Version is the version of the controller that wrote this status.
	Version string `json:"version,omitempty"`
	// Versions counts the running programs by component and version.
	// +listType=map
	// +listMapKey=component
	// +listMapKey=version
	Versions []ComponentVersion `json:"versions,omitempty"`
	// Outcome is the worst outcome of the pools and GitSources, as `bunsen status` shows it.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`
	// Verdicts are the pools and GitSources whose outcome is not Fine, and nodes that several pools select, the worst
	// first, at most 100. `bunsen why` says the same about each, with the commands that help.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +optional
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Message is the message of the condition that a user should read first: Available while it is False, otherwise
	// Degraded, otherwise Progressing.
	Message string `json:"message,omitempty"`
	// Conditions are Available, Progressing, Degraded and Upgradeable.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ComponentVersion counts the programs of one component that run one version.
type ComponentVersion struct {
	// Component is machine-config-controller, machine-config-notifier, machine-config-server or machine-config-daemon.
	Component string `json:"component"`
	// Version is the version that the programs report.
	Version string `json:"version"`
	// Count is how many replicas or daemons report this version.
	Count int32 `json:"count"`
}

const (
	// BunsenStatusName is the name of the only BunsenStatus.
	BunsenStatusName = "cluster"
	// DaemonComponent is the component of a ComponentVersion that counts daemons.
	DaemonComponent = "machine-config-daemon"
)

// Condition types of BunsenStatus.
const (
	// AvailableCondition is True while Bunsen can update nodes: daemons report, and if servers reported, one of them
	// still does.
	AvailableCondition = "Available"
	// ProgressingCondition is True while a commit is applied or a pool is updating.
	ProgressingCondition = "Progressing"
	// DegradedCondition is True while a pool is Degraded, a GitSource is not Ready, or a program does not report. The
	// outcome of the status also says what else needs a user.
	DegradedCondition = "Degraded"
	// UpgradeableCondition is True while nothing speaks against an upgrade of Bunsen.
	UpgradeableCondition = "Upgradeable"
)

// Reasons of the conditions of BunsenStatus.
const (
	// ReasonAsExpected is the reason of every condition that needs no attention.
	ReasonAsExpected = "AsExpected"
	ReasonNoDaemons  = "NoDaemons"
	// ReasonNoServers: servers reported before, and none reports now.
	ReasonNoServers = "NoServers"
	// ReasonDaemonsSilent: daemons of some nodes have stopped reporting.
	ReasonDaemonsSilent = "DaemonsSilent"
	// ReasonPoolsUpdating: the controller assigns configs to nodes of a pool, or waits to do so.
	ReasonPoolsUpdating = "PoolsUpdating"
	// ReasonSourcesApplying: the controller applies a revision of a GitSource.
	ReasonSourcesApplying = "SourcesApplying"
	ReasonPoolsDegraded   = "PoolsDegraded"
	// ReasonSourcesFailing: the condition Ready of a GitSource is False.
	ReasonSourcesFailing = "SourcesFailing"
	// ReasonVersionsDiffer: a program runs another version than the controller.
	ReasonVersionsDiffer = "VersionsDiffer"
)
