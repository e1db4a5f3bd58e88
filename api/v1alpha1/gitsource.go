package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GitSource names a git repository of Butane documents. The controller reads its commits and applies them to the
// cluster's pools.
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

// SourceProvider is the provider of an identity that reads a repository.
type SourceProvider string

// Values of SourceProvider.
const (
	ProviderGeneric SourceProvider = "generic"
	ProviderAzure   SourceProvider = "azure"
	ProviderGCP     SourceProvider = "gcp"
)

// SourceContent is what a source brings besides the files of the commit itself.
type SourceContent string

// Values of SourceContent.
const (
	ContentSubmodules SourceContent = "Submodules"
)

// GitSourceSpec is the repository and how the controller reads it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.verify.mode) || !(self.verify.mode in ['Tag', 'TagAndHead']) || (has(self.ref) && !(has(self.ref.commit) && self.ref.commit.size() > 0) && (has(self.ref.name) && self.ref.name.size() > 0 ? self.ref.name.startsWith('refs/tags/') : (has(self.ref.semver) && self.ref.semver.size() > 0) || (has(self.ref.tag) && self.ref.tag.size() > 0)))",message="verify.mode Tag and TagAndHead need ref.tag or ref.semver, without ref.commit and ref.name"
type GitSourceSpec struct {
	// URL is the address of the repository: https://, http://, ssh:// or user@host:path. An absolute path names a
	// repository on the controller's machine. oci://host/name is a repository of an OCI registry, whose artifacts hold
	// the files of a commit.
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url"`
	// Ref is the branch, tag or commit to follow. Empty means the repository's default branch.
	Ref GitRef `json:"ref,omitempty"`
	// Path is the directory in the repository that contains `pools/`. Empty means its root.
	Path string `json:"path,omitempty"`
	// Include lists what the controller fetches besides the files of the commit. `Submodules` brings the files of
	// submodules whose repositories are at the scheme, host and port of the URL. Without it, the controller refuses
	// submodules.
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:Enum=Submodules
	// +listType=set
	Include []SourceContent `json:"include,omitempty"`
	// Interval is the time between two polls of the repository. While there is no new commit, a poll lists the refs
	// only. The controller varies it by up to 10 %.
	// +kubebuilder:default="1m"
	Interval metav1.Duration `json:"interval,omitempty"`
	// Timeout is the longest time that one fetch may take.
	// +kubebuilder:default="1m"
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Suspend stops fetching. The applied revision stays in force.
	Suspend bool `json:"suspend,omitempty"`
	// SuspendUntil ends the suspension at this time: suspend then has no effect, although it is still true. If
	// suspendUntil is absent, the source is suspended until a user sets suspend to false.
	SuspendUntil *metav1.Time `json:"suspendUntil,omitempty"`
	// SecretRef names a Secret in namespace bunsen-sources with the credentials. For https and oci it holds `username`
	// and `password`, or `bearerToken`, and optionally `ca.crt`, or a client certificate in `tls.crt` and `tls.key`. It
	// also lists in `hosts` the hosts to which the controller may send them. For ssh it holds `identity`, `known_hosts`
	// and optionally `identity.2` to `identity.5` and `password`. The controller refuses a Secret with other keys.
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// Provider is whose identity of the controller reads the repository. `generic` uses the Secret of secretRef.
	// `azure` uses the workload identity of the controller's pod for Azure DevOps (https://dev.azure.com/...), `gcp`
	// that of Google Cloud for Artifact Registry (oci://LOCATION-docker.pkg.dev/...). The Secret then holds `ca.crt` at
	// most.
	// +kubebuilder:validation:Enum=generic;azure;gcp
	// +kubebuilder:default=generic
	Provider SourceProvider `json:"provider,omitempty"`
	// ProxySecretRef names a Secret in namespace bunsen-sources with the proxy to the repository. It holds `address`,
	// such as http://proxy.example.org:3128 or socks5://host:1080, and optionally `username`, `password`, and `ca.crt`
	// for an https proxy. Without it, https uses the proxy of the controller's environment.
	ProxySecretRef *SecretReference `json:"proxySecretRef,omitempty"`
	// Verify makes the controller refuse commits without a trusted signature.
	Verify *Verification `json:"verify,omitempty"`
	// HistoryPolicy decides about a commit that does not descend from the last applied one, and about a tag that moved.
	// `Allow` applies the commit, `Warn` applies it with a warning, `Block` refuses it. With verify, `Warn` refuses a
	// commit that does not descend from the applied one, because it may be an earlier signed commit. The annotation
	// bunsen.dev/accept-commit accepts one commit.
	// +kubebuilder:validation:Enum=Allow;Warn;Block
	// +kubebuilder:default=Warn
	HistoryPolicy HistoryPolicy `json:"historyPolicy,omitempty"`
	// Prune deletes objects whose file was removed from the repository.
	// +kubebuilder:default=true
	Prune *bool `json:"prune,omitempty"`
	// Webhook lets the git host announce pushes, so that the controller does not wait for the next poll.
	Webhook *Webhook `json:"webhook,omitempty"`
}

// IsSuspended reports whether the spec suspends the source at a time.
func (s *GitSourceSpec) IsSuspended(now time.Time) bool {
	return s.Suspend && (s.SuspendUntil == nil || now.Before(s.SuspendUntil.Time))
}

// GitRef names what to follow. If several fields are set, the first in this order counts: digest, commit, name, semver,
// tag, branch. An OCI repository has tags and digests only. Without a field, the controller follows its tag `latest`.
type GitRef struct {
	// Branch is the branch to follow, such as `main`.
	Branch string `json:"branch,omitempty"`
	// Tag is the tag to apply.
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of versions, such as `~1.4`. The controller applies the highest tag that matches.
	SemVer string `json:"semver,omitempty"`
	// Name is a full ref name, such as `refs/pull/7/head`.
	Name string `json:"name,omitempty"`
	// Commit is the full hash of the commit to apply.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40})?$`
	Commit string `json:"commit,omitempty"`
	// Digest is the digest of the OCI artifact to apply, `sha256:<hex>`. It is for oci:// only.
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64})?$`
	Digest string `json:"digest,omitempty"`
}

// SecretReference names a Secret in namespace bunsen-sources, or in the namespace of the controller's flag
// --secrets-namespace.
type SecretReference struct {
	// Name is the name of the Secret.
	Name string `json:"name"`
}

// Verification says what must be signed, and by whom.
type Verification struct {
	// Mode says which objects need a signature. `Head`: the commit to apply. `Tag`: the annotated tag that the ref
	// names; the commit itself needs none. `TagAndHead`: both. `Range`: every commit since the applied one, so that a
	// signed commit on top of unsigned ones is refused. If no commit is applied yet, `Range` checks the commit to apply
	// only.
	// +kubebuilder:validation:Enum=Head;Tag;TagAndHead;Range
	// +kubebuilder:default=Head
	Mode VerificationMode `json:"mode,omitempty"`
	// SecretRef names a Secret. Its values are the trusted keys: armored OpenPGP public keys or lines of an SSH
	// allowed-signers file.
	SecretRef SecretReference `json:"secretRef"`
	// Signers are the trusted keys that may sign for this source. Empty means all keys of the Secret. An entry is an
	// SSH fingerprint (`SHA256:...`) or an OpenPGP fingerprint of 40 or 64 hex digits. It may also be a principal of
	// the allowed-signers file, or the e-mail address of a trusted OpenPGP key.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=320
	Signers []string `json:"signers,omitempty"`
	// Committers are the e-mail addresses that a commit may name as its committer. Empty means all.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=320
	Committers []string `json:"committers,omitempty"`
	// Authors are the e-mail addresses that a commit may name as its author. Empty means all.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=320
	Authors []string `json:"authors,omitempty"`
}

// VerificationMode says which git objects need a signature.
type VerificationMode string

// Values of VerificationMode. The empty mode is VerifyHead.
const (
	VerifyHead       VerificationMode = "Head"
	VerifyTag        VerificationMode = "Tag"
	VerifyTagAndHead VerificationMode = "TagAndHead"
	VerifyRange      VerificationMode = "Range"
)

// Webhook says who may announce a push of the repository. The controller receives the requests at `/hook/NAME`, with
// the name of the GitSource, if its flag --webhook is set. A request only makes it poll the repository at once.
type Webhook struct {
	// Type is the git host: `GitHub`, `GitLab`, `Gitea` (also Forgejo), `Bitbucket` (Cloud and Data Center), or
	// `Generic` for a program of your own.
	// +kubebuilder:validation:Enum=GitHub;GitLab;Gitea;Bitbucket;Generic
	Type WebhookType `json:"type"`
	// SecretRef names a Secret in namespace bunsen-sources. Its key `token` is the secret that you enter at the git
	// host, of at least 16 bytes. Requests without its signature are refused.
	SecretRef SecretReference `json:"secretRef"`
}

// WebhookType is the kind of git host that sends a webhook.
type WebhookType string

// Values of WebhookType.
const (
	WebhookGitHub    WebhookType = "GitHub"
	WebhookGitLab    WebhookType = "GitLab"
	WebhookGitea     WebhookType = "Gitea"
	WebhookBitbucket WebhookType = "Bitbucket"
	WebhookGeneric   WebhookType = "Generic"
)

// HistoryPolicy is what the controller does about rewritten history.
type HistoryPolicy string

// Values of HistoryPolicy.
const (
	HistoryAllow HistoryPolicy = "Allow"
	HistoryWarn  HistoryPolicy = "Warn"
	HistoryBlock HistoryPolicy = "Block"
)

// GitSourceStatus is the newest revision that the controller found and the one that it applied.
type GitSourceStatus struct {
	// ObservedGeneration is the generation of the spec that this status belongs to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ObservedRevision is the newest revision that the controller found in the repository, such as `main@sha1:<hex>`.
	ObservedRevision string `json:"observedRevision,omitempty"`
	// AppliedRevision is the revision that the controller last applied completely.
	AppliedRevision string `json:"appliedRevision,omitempty"`
	// AppliedGeneration is the generation of the spec with which AppliedRevision was applied.
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// AppliedFrom is the repository and the ref that the spec named for AppliedRevision. If the spec names others now,
	// the controller does not compare the history of the next commit with AppliedRevision.
	AppliedFrom string `json:"appliedFrom,omitempty"`
	// AppliedCommit is the commit of AppliedRevision.
	AppliedCommit *CommitInfo `json:"appliedCommit,omitempty"`
	// LastHandledReconcileAt is the value of the annotation bunsen.dev/reconcile that the controller last handled.
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// LastPush is the last push that a webhook announced. The controller polls the repository at once when it changes.
	LastPush *AnnouncedPush `json:"lastPush,omitempty"`
	// History lists revisions, newest first: at most 20 that were applied and at most 10 that were refused.
	History []HistoryEntry `json:"history,omitempty"`
	// Warnings are problems that did not prevent the applied revision, such as a file that contains no document. There
	// are at most 20, each with at most 500 characters.
	Warnings []string `json:"warnings,omitempty"`
	// Inventory lists every object of AppliedRevision. The controller writes it last, so that it renders pools from
	// whole commits only.
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// AppliedContent is the digest of the RevisionContent objects that hold AppliedRevision.
	AppliedContent string `json:"appliedContent,omitempty"`
	// Applying is the revision that the controller is writing. Absent if there is none. The controller records it
	// before the first write. Meanwhile it neither renders nor rolls out pools that this source feeds.
	Applying *ApplyingRevision `json:"applying,omitempty"`
	// Progress is how far the controller is with a revision that takes more than two seconds. Absent otherwise.
	Progress *ApplyProgress `json:"progress,omitempty"`
	// Conditions are Ready, Reconciling, Stalled and, if the spec has verify, SourceVerified.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AnnouncedPush is a push that the git host announced by a webhook. It is a hint: only the repository says what the
// refs are.
type AnnouncedPush struct {
	// Received is when the controller received the request.
	Received metav1.MicroTime `json:"received"`
	// Ref is the full name of the ref that changed, `refs/heads/main`. Empty if the request named none.
	Ref string `json:"ref,omitempty"`
	// Commit is the new hash of the ref. The controller polls more often until the repository lists it, for at most two
	// minutes, because git hosts may announce a push before all their servers have it.
	Commit string `json:"commit,omitempty"`
}

// CommitInfo describes a commit.
type CommitInfo struct {
	// Revision is the ref and the hash, `main@sha1:<hex>`.
	Revision string `json:"revision"`
	// Subject is the first line of the commit message.
	Subject string `json:"subject,omitempty"`
	// Author is `Name <mail>`.
	Author string `json:"author,omitempty"`
	// Time is the commit's time.
	Time metav1.Time `json:"time,omitempty"`
	// VerifiedBy names the key that signed the commit.
	VerifiedBy string `json:"verifiedBy,omitempty"`
}

// HistoryEntry is one revision: applied, with the rendered config of each pool, or refused.
type HistoryEntry struct {
	CommitInfo `json:",inline"`
	// At is when the controller applied the revision, or refused it first.
	At metav1.Time `json:"at,omitempty"`
	// Rewritten is true if the revision did not descend from the one that was applied before it, or if its tag moved.
	Rewritten bool `json:"rewritten,omitempty"`
	// Pools maps a pool to its rendered config of this revision.
	Pools map[string]string `json:"pools,omitempty"`
	// NotRendered maps a pool to the reason why the controller could not render it, in at most 200 characters.
	NotRendered map[string]string `json:"notRendered,omitempty"`
	// Held lists the pools that did not get a config of this revision because users held them at other ones.
	Held []string `json:"held,omitempty"`
	// Refused is why the controller applied nothing of this revision. Absent for an applied revision.
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is why the controller refused a revision.
type Refusal struct {
	// Reason is the reason of the condition Ready.
	Reason string `json:"reason"`
	// Message is the first problem and the number of the others, in at most 200 characters.
	Message string `json:"message"`
}

// InventoryEntry is one object of a revision.
type InventoryEntry struct {
	// Kind is MachineConfig, MachineConfigPool, MachineConfiguration, DriftPolicy, RolloutPolicy or PinnedImageSet.
	Kind string `json:"kind"`
	// Name is the name of the object.
	Name string `json:"name"`
	// Digest is the digest of the object's content in this revision, `sha256:<hex>`.
	Digest string `json:"digest"`
	// Role is the role label of a MachineConfig. Pools select by it.
	Role string `json:"role,omitempty"`
}

// ApplyingRevision is the revision that the controller is writing for a GitSource.
type ApplyingRevision struct {
	// Revision is the revision. The empty string means the state before the first revision.
	Revision string `json:"revision"`
	// Started is when the controller began to write.
	Started metav1.Time `json:"started"`
	// Inventory lists every object of Revision.
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// Base is the digest of the RevisionContent objects that the controller restores if it cannot apply Revision
	// completely.
	Base string `json:"base,omitempty"`
	// Created lists the objects, as `Kind/name`, that did not exist before. Restoring Base deletes them.
	Created []string `json:"created,omitempty"`
}

// ApplyProgress is how far the controller is with a revision. Users see it; no decision depends on it.
type ApplyProgress struct {
	// Revision is the revision. The empty string means the state before the first revision.
	Revision string `json:"revision"`
	// Phase is what the controller does with the objects.
	// +kubebuilder:validation:Enum=Checking;Writing
	Phase ApplyPhase `json:"phase"`
	// Objects is how many objects differ from the revision.
	Objects int32 `json:"objects"`
	// Done is with how many of them the controller is done in this phase.
	Done int32 `json:"done"`
	// Began is when the controller began to apply the revision.
	Began metav1.Time `json:"began"`
	// Reported is when the controller wrote these numbers.
	Reported metav1.Time `json:"reported"`
}

// ApplyPhase is what the controller does with the objects of a revision.
type ApplyPhase string

// Values of ApplyPhase.
const (
	// ApplyChecking means that the API server checks the objects, and stores none.
	ApplyChecking ApplyPhase = "Checking"
	ApplyWriting  ApplyPhase = "Writing"
)
