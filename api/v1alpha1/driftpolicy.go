package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriftPolicy says what the daemon does when somebody changed on a node what a config put there. Of all policies that
// select a node's pool, in the order of their names, the first rule that matches decides; what no rule matches degrades
// the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.spec.pools`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DriftPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DriftPolicySpec `json:"spec"`
}

// DriftPolicyList is a list of DriftPolicy.
//
// +kubebuilder:object:root=true
type DriftPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DriftPolicy `json:"items"`
}

// DriftPolicySpec selects pools and says what to do. A policy without pools and without a selector is for every pool.
type DriftPolicySpec struct {
	// Pools by name.
	// +listType=set
	Pools []string `json:"pools,omitempty"`
	// MachineConfigPoolSelector selects pools by their labels, beside those of Pools.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
	// Rules in order; the first that matches decides.
	// +kubebuilder:validation:MaxItems=200
	Rules []DriftRule `json:"rules"`
	// Repair limits how often the rules of this policy put one thing right.
	// +kubebuilder:default={}
	Repair RepairLimit `json:"repair,omitempty"`
}

// DriftRule says what to do about some of the things that configs manage.
type DriftRule struct {
	// Path is a pattern. One that begins with / is for paths: `*` and `?` stand for characters of one name, `**` for any
	// number of names. Others are for units by name, such as `chronyd.service` or `*.timer`, with their files, drop-ins and
	// enablement; for `user/NAME` and `group/NAME`; and for `os/image` and `os/kernelArguments`. `**` alone is for
	// everything.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// Action on drift of what matches.
	Action DriftAction `json:"action"`
}

// DriftAction is what is done about a drift.
//
// +kubebuilder:validation:Enum=Degrade;Repair;Report;Ignore
type DriftAction string

// Values of DriftAction.
const (
	// DriftDegrade reports it, and the node is Degraded until it is put right: nothing else is rolled out there.
	DriftDegrade DriftAction = "Degrade"
	// DriftRepair puts it right as an update would, and does what the node disruption policy names for the path. Where that
	// is a drain or a reboot, or where it comes back too often, the node is Degraded instead.
	DriftRepair DriftAction = "Repair"
	// DriftReport reports it. An update whose configs do not differ in it leaves it alone.
	DriftReport DriftAction = "Report"
	// DriftIgnore says nothing. An update whose configs do not differ in it leaves it alone.
	DriftIgnore DriftAction = "Ignore"
)

// RepairLimit is a limit for each single thing that is repaired: Burst repairs at once, and one more after each Interval.
type RepairLimit struct {
	// Interval after which one more repair is allowed.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Interval metav1.Duration `json:"interval,omitempty"`
	// Burst is how many repairs are allowed at once.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Burst int32 `json:"burst,omitempty"`
}
