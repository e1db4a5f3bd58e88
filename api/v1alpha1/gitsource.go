package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GitSource is a git repository of Butane documents that the cluster's nodes follow.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gs,categories=bunsen
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.appliedRevision`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GitSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitSourceSpec   `json:"spec"`
	Status GitSourceStatus `json:"status,omitempty"`
}

// GitSourceList is a list of GitSource.
//
// +kubebuilder:object:root=true
type GitSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitSource `json:"items"`
}

// GitSourceSpec says which repository to follow, and how.
type GitSourceSpec struct {
	// URL of the repository: https://, http://, ssh:// or user@host:path; or an absolute path on the controller's
	// machine, which the embedded default uses.
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url"`
	// Ref is what to follow; empty means the repository's default branch.
	Ref GitRef `json:"ref,omitempty"`
	// Path is the folder in the repository that holds `pools/`; empty means its root.
	Path string `json:"path,omitempty"`
	// Interval between two looks at the remote; each is one listing of refs while nothing is new. Spread by up to 10 %.
	// +kubebuilder:default="1m"
	Interval metav1.Duration `json:"interval,omitempty"`
	// Timeout of one fetch.
	// +kubebuilder:default="1m"
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Suspend stops fetching; what is applied stays.
	Suspend bool `json:"suspend,omitempty"`
	// SecretRef names a Secret in namespace bunsen-sources: `username`+`password` or `bearerToken`, and `ca.crt` for
	// https; `identity`, `known_hosts` and optionally `password` for ssh. A Secret with credentials for https lists in
	// `hosts` where they may be sent.
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// Verify asks for signed commits.
	Verify *Verification `json:"verify,omitempty"`
	// HistoryPolicy is what to do when the followed ref no longer descends from the last applied commit.
	// +kubebuilder:validation:Enum=Allow;Warn;Block
	// +kubebuilder:default=Warn
	HistoryPolicy HistoryPolicy `json:"historyPolicy,omitempty"`
	// Prune deletes objects whose file is gone from the repository.
	// +kubebuilder:default=true
	Prune *bool `json:"prune,omitempty"`
}

// GitRef names one thing to follow; where several are set, the more precise wins: commit, name, semver, tag, branch.
type GitRef struct {
	// Branch to follow, such as `main`.
	Branch string `json:"branch,omitempty"`
	// Tag to stay on.
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of tags, such as `~1.4`; the highest that matches is followed.
	SemVer string `json:"semver,omitempty"`
	// Name is a full ref name, such as `refs/pull/7/head`.
	Name string `json:"name,omitempty"`
	// Commit is a full hash to stay on.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40})?$`
	Commit string `json:"commit,omitempty"`
}

// SecretReference names a Secret in namespace bunsen-sources, or in that of the controller's --secrets-namespace.
type SecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`
}

// Verification says whose signature a commit must bear.
type Verification struct {
	// SecretRef names a Secret whose values are allowed keys: armored OpenPGP public keys or SSH allowed-signers lines.
	SecretRef SecretReference `json:"secretRef"`
}

// HistoryPolicy is what to do with rewritten history.
type HistoryPolicy string

// Values of HistoryPolicy.
const (
	HistoryAllow HistoryPolicy = "Allow"
	HistoryWarn  HistoryPolicy = "Warn"
	HistoryBlock HistoryPolicy = "Block"
)

// GitSourceStatus says what was seen and what is applied.
type GitSourceStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ObservedRevision is the newest revision seen at the remote, `main@sha1:<hex>`.
	ObservedRevision string `json:"observedRevision,omitempty"`
	// AppliedRevision is the revision that the cluster's fragments were last made from.
	AppliedRevision string `json:"appliedRevision,omitempty"`
	// AppliedGeneration is the generation of the spec that AppliedRevision was applied under.
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// AppliedCommit describes the commit of AppliedRevision.
	AppliedCommit *CommitInfo `json:"appliedCommit,omitempty"`
	// LastHandledReconcileAt echoes the annotation bunsen.dev/reconcile.
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// History of revisions, newest first: at most 20 that were applied, and at most 10 that were refused.
	History []HistoryEntry `json:"history,omitempty"`
	// Warnings are what a person should know of the applied revision although it was applied, such as a file that no document is read from;
	// at most 20, each of at most 500 characters.
	Warnings []string `json:"warnings,omitempty"`
	// Inventory is every object of AppliedRevision; it is written last, so a pool renders only from whole commits.
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// AppliedContent is the digest under which RevisionContent objects hold the objects of AppliedRevision.
	AppliedContent string `json:"appliedContent,omitempty"`
	// Applying is the revision whose objects are being written; absent while none is. It is recorded before the first
	// write, and no pool that the source feeds is rendered or rolled out while it is there.
	Applying *ApplyingRevision `json:"applying,omitempty"`
	// Conditions: Ready, Reconciling, Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CommitInfo describes a commit for people.
type CommitInfo struct {
	// Revision is `main@sha1:<hex>`.
	Revision string `json:"revision"`
	// Subject is the first line of the commit message.
	Subject string `json:"subject,omitempty"`
	// Author is `Name <mail>`.
	Author string `json:"author,omitempty"`
	// Time of the commit.
	Time metav1.Time `json:"time,omitempty"`
	// VerifiedBy names the key that signed it.
	VerifiedBy string `json:"verifiedBy,omitempty"`
}

// HistoryEntry is one revision: applied, with what each pool was rendered to under it, or refused.
type HistoryEntry struct {
	CommitInfo `json:",inline"`
	// Pools maps a pool to the rendered config that this revision gave it.
	Pools map[string]string `json:"pools,omitempty"`
	// NotRendered maps a pool to the reason why it could not be rendered under this revision, in at most 200 characters.
	NotRendered map[string]string `json:"notRendered,omitempty"`
	// Refused says why nothing of this revision was applied; absent on a revision that was applied.
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is why a revision was refused.
type Refusal struct {
	// Reason is that of the condition Ready.
	Reason string `json:"reason"`
	// Message has the first problem, in at most 200 characters.
	Message string `json:"message"`
}

// InventoryEntry is one object of a revision.
type InventoryEntry struct {
	// Kind of the object: MachineConfig, MachineConfigPool, MachineConfiguration, DriftPolicy, RolloutPolicy.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Digest of what the revision wants there, `sha256:<hex>`.
	Digest string `json:"digest"`
	// Role label of a MachineConfig; pools select by it.
	Role string `json:"role,omitempty"`
}

// ApplyingRevision is what the controller is writing to the cluster for a GitSource.
type ApplyingRevision struct {
	// Revision whose objects are written; the empty string stands for the state before the first revision.
	Revision string `json:"revision"`
	// Started is when the controller began to write.
	Started metav1.Time `json:"started"`
	// Inventory is every object of Revision.
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// Base is the digest of the RevisionContent objects that the controller restores where Revision cannot be applied whole.
	Base string `json:"base,omitempty"`
	// Created are the objects, as `Kind/name`, that did not exist before; restoring Base deletes them.
	Created []string `json:"created,omitempty"`
}
