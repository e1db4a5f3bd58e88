package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DriftPolicy configures what the daemon does about drift: a difference between a node and its config in force, for
// example after a manual change. The daemon reads all policies that select the node's pool, ordered by name. The first
// rule that matches decides. Drift that no rule matches degrades the node.
//
// DriftPolicy has no status.
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

// DriftPolicySpec selects pools and gives the rules for them. A policy without pools and without a selector selects
// every pool.
type DriftPolicySpec struct {
	// Pools are the names of the selected pools.
	// +listType=set
	Pools []string `json:"pools,omitempty"`
	// MachineConfigPoolSelector selects more pools by their labels.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
	// Rules are read in order. The first one that matches decides.
	// +kubebuilder:validation:MaxItems=200
	Rules []DriftRule `json:"rules"`
	// Repair limits how often the daemon repairs the same path, unit, user or group by rules of this policy.
	// +kubebuilder:default={}
	Repair RepairLimit `json:"repair,omitempty"`
}

// DriftRule gives the action for the paths, units and accounts that it matches.
type DriftRule struct {
	// Path is a pattern. A pattern that begins with / matches paths: `*` and `?` match characters of one name, `**`
	// matches any number of names. Other patterns match a unit by name, such as `chronyd.service` or `*.timer`, with
	// its files, drop-ins and enablement. `user/NAME`, `group/NAME`, `os/image` and `os/kernelArguments` match these.
	// `**` alone matches everything.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// Action is what the daemon does about drift. `Degrade` reports it and sets the node to Degraded until the drift
	// ends. `Repair` restores the config with the actions of the node disruption policy. If they include a drain or a
	// reboot, or if the limit of Repair is reached, it degrades the node instead. `Report` only reports the drift.
	// `Ignore` does nothing.
	Action DriftAction `json:"action"`
}

// DriftAction is what the daemon does about drift.
//
// +kubebuilder:validation:Enum=Degrade;Repair;Report;Ignore
type DriftAction string

// Values of DriftAction.
const (
	// DriftDegrade reports the drift and degrades the node until the drift ends. Meanwhile the node gets no new config.
	DriftDegrade DriftAction = "Degrade"
	// DriftRepair restores the config as an update does, with the actions of the node disruption policy. If they
	// include a drain or a reboot, or if the drift returns too often, the daemon degrades the node instead.
	DriftRepair DriftAction = "Repair"
	// DriftReport reports the drift. An update that does not change the path keeps the drift.
	DriftReport DriftAction = "Report"
	// DriftIgnore does nothing. An update that does not change the path keeps the drift.
	DriftIgnore DriftAction = "Ignore"
)

// RepairLimit limits the repairs of one path, unit, user or group: Burst repairs at once, and one more after each
// Interval.
type RepairLimit struct {
	// Interval is the time after which one more repair is allowed.
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
