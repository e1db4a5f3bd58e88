package v1alpha1

// Keys on objects that Bunsen writes. A rendered config has the Commit* annotations of the commit that first produced
// its content. The controller never changes them (see docs/adr and `bunsen trace`).
const (
	// SourceLabel on a fragment or cluster object names the GitSource that owns it.
	SourceLabel = "bunsen.dev/source"
	// DigestAnnotation on a fragment or cluster object is the SHA-256 of the object's content in the source.
	DigestAnnotation = "bunsen.dev/digest"
	// WantedAnnotation on an object of `cluster/` is its content in the repository, as JSON. DigestAnnotation is its
	// digest.
	WantedAnnotation = "bunsen.dev/wanted"
	// SelectedAnnotation on a pool is the digest of the MachineConfigs of its last render, also of a failed one. The
	// controller does not roll out the pool while the live ones differ from it. Writer: the controller.
	SelectedAnnotation = "bunsen.dev/selected"
	// NotRenderedAnnotation on a pool is the newest revision that the controller could not render for it. The pool's
	// condition RenderDegraded has the reason. It is absent while the newest revision renders. Writer: the controller.
	NotRenderedAnnotation = "bunsen.dev/not-rendered"
	// TargetAnnotation on a pool is a PoolTarget as JSON: who requested the config that the pool should run. Writer:
	// the controller.
	TargetAnnotation = "bunsen.dev/target"
	// RequestAnnotation on a Node is a ConfigRequest as JSON: who requested its desired config. A rendered config has
	// the annotation if changes through the API first requested the config. Writer: the controller.
	RequestAnnotation = "bunsen.dev/requested-by"
	// StandardAnnotation on the pool master or worker lists the fields of its spec that the controller set and
	// restores, separated by commas. It is absent on a pool that a user created. Writer: the controller.
	StandardAnnotation = "bunsen.dev/standard-fields"
	// SourceSpecAnnotation on a pool is the spec of the GitSource of SourceAnnotation as JSON, without credentials in
	// its URL. With it, a user can create a deleted GitSource again. Writer: the controller.
	SourceSpecAnnotation = "bunsen.dev/source-spec"
	// FileAnnotation on a fragment lists the repository files that it comes from, as JSON [{"file","blob"}].
	FileAnnotation = "bunsen.dev/files"

	// ContainerRuntimeAnnotation names the container runtimes that a document of a pool configures, with commas between
	// them: crio, containerd.
	ContainerRuntimeAnnotation = "bunsen.dev/container-runtime"
	// SourceAnnotation on a rendered config names the GitSource of its commit.
	SourceAnnotation = "bunsen.dev/source"
	// RepositoryAnnotation is the URL of the repository, without credentials.
	RepositoryAnnotation = "bunsen.dev/repository"
	// RevisionAnnotation is the revision, `main@sha1:<hex>`. On a pool it is the revision last rendered for it.
	RevisionAnnotation = "bunsen.dev/revision"
	// CommitAuthorAnnotation is `Name <mail>` of the commit's author.
	CommitAuthorAnnotation = "bunsen.dev/commit-author"
	// CommitSubjectAnnotation is the first line of the commit message.
	CommitSubjectAnnotation = "bunsen.dev/commit-subject"
	// CommitTimeAnnotation is the commit time, RFC 3339 in UTC.
	CommitTimeAnnotation = "bunsen.dev/commit-time"
	// VerifiedByAnnotation names the key that signed the commit; absent if the GitSource requires no signature.
	VerifiedByAnnotation = "bunsen.dev/verified-by"
	// NodeConfigsAnnotation is on the config of a pool whose nodes have configs of their own, and has a NodeConfigs.
	NodeConfigsAnnotation = "bunsen.dev/node-configs"
	// VariantOfAnnotation is on the config of single nodes, and names the config that it was merged from.
	VariantOfAnnotation = "bunsen.dev/variant-of"
	// VariantNodesAnnotation is on the config of single nodes, and names the nodes for which it was rendered at any
	// time, separated by commas. The server sends it to no other node.
	VariantNodesAnnotation = "bunsen.dev/variant-nodes"
	// NodeTableLabel is on the MachineConfig with the facts and the documents of a pool's nodes, and names the pool.
	NodeTableLabel = "bunsen.dev/node-table"
	// InputsAnnotation is JSON {"fragment name": "digest"} of all inputs of a rendered config.
	InputsAnnotation = "bunsen.dev/inputs"
	// RendererAnnotation is the version of Bunsen that rendered the config.
	RendererAnnotation = "bunsen.dev/renderer"

	// ReconcileAnnotation on a GitSource requests a fetch now. Any new value counts, usually a time.
	ReconcileAnnotation = "bunsen.dev/reconcile"
	// AcceptAnnotation on a GitSource is the full hash of a commit that the controller applies although it does not
	// descend from the applied one, a tag moved to it, or earlier commits are not signed. Its own signature must be
	// valid.
	AcceptAnnotation = "bunsen.dev/accept-commit"

	// CordonedAnnotation on a Node means that Bunsen cordoned it, so that Bunsen never removes an administrator's own
	// cordon. The value is the rendered config of the update.
	CordonedAnnotation = "bunsen.dev/cordoned-for"
	// ScaleDownAnnotation on a Node names those of ScaleDownAnnotations that Bunsen set with its cordon, separated by
	// blanks. Writer: the controller.
	ScaleDownAnnotation = "bunsen.dev/scale-down-disabled"
	// DrainStartedAnnotation on a Node is when the running drain began, RFC 3339 in UTC.
	DrainStartedAnnotation = "bunsen.dev/drain-started"
	// DrainStatusAnnotation on a Node is what a drain waits for, in one line.
	DrainStatusAnnotation = "bunsen.dev/drain-status"
	// DrainReportAnnotation on a Node is a DrainReport as JSON during a drain, else absent.
	DrainReportAnnotation = "bunsen.dev/drain-report"
	// PostponedAnnotation on a Node means that the controller postponed its drain to update another node first. The
	// value is the rendered config and the time, RFC 3339 in UTC, separated by a blank. Writer: the controller.
	PostponedAnnotation = "bunsen.dev/postponed"
	// DrainsAnnotation on a Node counts its postponed drains for a config. The value is the rendered config, the start
	// of the first drain, RFC 3339 in UTC, and their number, separated by blanks. Writer: the controller.
	DrainsAnnotation = "bunsen.dev/postponed-drains"
	// RetryAnnotation requests another try of an update that failed. The value is the time of the request, RFC 3339. On
	// a Node, each new value is one request; on a MachineConfigPool, it is about failures before this time. It stays
	// on the object, and has no effect on later failures.
	RetryAnnotation = "bunsen.dev/retry"
	// SteeredByAnnotation on a MachineConfigPool is who requested a retry or released the pool, for users: what was
	// requested, and the user's name, separated by a blank. What was requested is the value of RetryAnnotation, or of
	// the HoldAnnotation that was removed, so that the name counts for this request alone.
	SteeredByAnnotation = "bunsen.dev/steered-by"
	// RolloutAnnotation on a MachineConfigPool is a RolloutRecord as JSON. Writer: the controller.
	RolloutAnnotation = "bunsen.dev/rollout"
	// ClosedGatesAnnotation on a MachineConfigPool is a list of ClosedGate as JSON: the health gates that block its
	// rollout. It is absent if there are none. Writer: the controller.
	ClosedGatesAnnotation = "bunsen.dev/closed-gates"
	// RolloutHistoryAnnotation on a MachineConfigPool is a list of RolloutOutcome as JSON, newest first: the results of
	// the rollouts before that of RolloutAnnotation. Writer: the controller.
	RolloutHistoryAnnotation = "bunsen.dev/rollout-history"
	// PausedByAnnotation on a MachineConfigPool is who paused it and why, for users.
	PausedByAnnotation = "bunsen.dev/paused-by"
	// PausedUntilAnnotation on a paused MachineConfigPool is when the controller resumes it, RFC 3339.
	PausedUntilAnnotation = "bunsen.dev/paused-until"
	// HoldAnnotation on a MachineConfigPool is the rendered config at which the pool is held: the controller makes it
	// the pool's config, although the pool's GitSources continue.
	HoldAnnotation = "bunsen.dev/hold"
	// HeldRevisionAnnotation on a held MachineConfigPool is the revision that gave it the config of HoldAnnotation.
	HeldRevisionAnnotation = "bunsen.dev/held-revision"
	// HeldByAnnotation on a held MachineConfigPool is who held it and why, for users.
	HeldByAnnotation = "bunsen.dev/held-by"
	// HeldUntilAnnotation on a held MachineConfigPool is when the controller releases it, RFC 3339.
	HeldUntilAnnotation = "bunsen.dev/held-until"
	// SuspendedByAnnotation on a GitSource is who suspended it and why, for users.
	SuspendedByAnnotation = "bunsen.dev/suspended-by"
	// OpenUntilAnnotation on a MachineConfigPool allows its rollout outside of its maintenance windows until this time,
	// RFC 3339.
	OpenUntilAnnotation = "bunsen.dev/open-until"
	// AttestedPoolAnnotation on a Node is the pool for which the server admitted its machine, according to the server's
	// records; empty if no record names one. Writer: the controller, once, if a node reports a first boot for a custom
	// pool.
	AttestedPoolAnnotation = "bunsen.dev/attested-pool"
	// GateLabel, `true`, on a CronJob and on its Namespace allows job gates of RolloutPolicies to run it. On a Job it
	// names the gate that created it.
	GateLabel = "bunsen.dev/gate"
	// DriftAnnotation on a Node is a Drift as JSON; empty without drift. Writer: the daemon.
	DriftAnnotation = "bunsen.dev/drift"
	// FailureAnnotation on a Node is a Failure as JSON while its daemon reports one, else empty. Writer: the daemon.
	FailureAnnotation = "bunsen.dev/failure"
)

// Keys of the machine-config API that Bunsen shares with other programs (openshift/machine-config-operator,
// docs/MachineConfigDaemon.md).
const (
	// RoleLabel on a MachineConfig names its role. Pools select by it.
	RoleLabel = "machineconfiguration.openshift.io/role"
	// CurrentConfigAnnotation on a Node is the rendered config in force. Writer: the daemon.
	CurrentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	// DesiredConfigAnnotation on a Node is the rendered config that the node should run. Writer: the controller.
	DesiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
	// StateAnnotation on a Node is one of the State* values. Writer: the daemon.
	StateAnnotation = "machineconfiguration.openshift.io/state"
	// ReasonAnnotation on a Node is why it is Degraded or Unreconcilable, in at most 2000 characters; else empty.
	ReasonAnnotation = "machineconfiguration.openshift.io/reason"
	// DesiredDrainAnnotation on a Node is the daemon's request, as DrainRequest writes it: `drain-<rendered>` or
	// `uncordon-<rendered>`. Writer: the daemon.
	DesiredDrainAnnotation = "machineconfiguration.openshift.io/desiredDrain"
	// LastAppliedDrainAnnotation on a Node is the last completed request of DesiredDrainAnnotation, or the last drain
	// that somebody undid. Writer: the controller.
	LastAppliedDrainAnnotation = "machineconfiguration.openshift.io/lastAppliedDrain"
	// PostConfigActionAnnotation on a Node is `Rebooting` during a reboot, else empty. Writer: the daemon.
	PostConfigActionAnnotation = "machineconfiguration.openshift.io/post-config-action"
	// FirstPivotConfigAnnotation on a Node is the rendered config of the first boot. The machine-config-server puts it
	// into the node's initial annotations.
	FirstPivotConfigAnnotation = "machineconfiguration.openshift.io/firstPivotConfig"
	// CustomPoolLabelsAppliedAnnotation on a Node means that the controller has set the labels of the custom pool of
	// its first boot. The value is empty. Writer: the controller.
	CustomPoolLabelsAppliedAnnotation = "machineconfiguration.openshift.io/customPoolLabelsApplied"
	// CurrentImageAnnotation and DesiredImageAnnotation exist on layered nodes only. Bunsen reads them to evaluate such
	// nodes.
	CurrentImageAnnotation = "machineconfiguration.openshift.io/currentImage"
	// DesiredImageAnnotation: see CurrentImageAnnotation.
	DesiredImageAnnotation = "machineconfiguration.openshift.io/desiredImage"
	// SSHAnnotation on a Node is SSHAccessed after the first login over SSH. Writer: the daemon, which never removes
	// it.
	SSHAnnotation = "machineconfiguration.openshift.io/ssh"
	// GeneratedByAnnotation on a MachineConfig marks one that a controller generated.
	GeneratedByAnnotation = "machineconfiguration.openshift.io/generated-by-controller-version"
	// UpdateInProgressTaint (PreferNoSchedule) is on each node of a pool whose desired config is not yet the pool's
	// config.
	UpdateInProgressTaint = "UpdateInProgress"
)

// Values of StateAnnotation.
const (
	StateWorking        = "Working"
	StateDone           = "Done"
	StateDegraded       = "Degraded"
	StateUnreconcilable = "Unreconcilable"
)

// SSHAccessed is the only value of SSHAnnotation.
const SSHAccessed = "accessed"

// Verbs of DesiredDrainAnnotation and LastAppliedDrainAnnotation, before the dash. UndoneVerb is in the latter only.
const (
	DrainVerb    = "drain"
	UncordonVerb = "uncordon"
	UndoneVerb   = "undone"
)

// Condition types of a GitSource (kstatus).
const (
	// ReadyCondition is True if the newest commit is applied.
	ReadyCondition = "Ready"
	// ReconcilingCondition is True while the controller works or will try again.
	ReconcilingCondition = "Reconciling"
	// StalledCondition is True if a user must change something.
	StalledCondition = "Stalled"
	// SourceVerifiedCondition is True if the last commit that the controller read has the signatures that spec.verify
	// requires. It is absent if the spec has no verify.
	SourceVerifiedCondition = "SourceVerified"
)

// Reasons of a GitSource's conditions and of its events.
const (
	ReasonSucceeded      = "Succeeded"
	ReasonProgressing    = "Progressing"
	ReasonSuspended      = "Suspended"
	ReasonUnreachable    = "RepositoryUnreachable"
	ReasonAuthentication = "AuthenticationFailed"
	ReasonRefNotFound    = "RefNotFound"
	ReasonPathNotFound   = "PathNotFound"
	ReasonInvalidSpec    = "InvalidSpec"
	ReasonInvalidTree    = "InvalidTree"
	// ReasonRepositoryDamaged means that the repository lacks an object of a commit, or that the object has another
	// content than its name says. A person has to repair the repository.
	ReasonRepositoryDamaged = "RepositoryDamaged"
	ReasonTranspileFailed   = "TranspileFailed"
	ReasonConflict          = "OwnershipConflict"
	ReasonPoolMissing       = "PoolMissing"
	ReasonHistoryRewritten  = "HistoryRewritten"
	ReasonSignature         = "SignatureMissing"
	ReasonVerified          = "SignatureValid"
	ReasonApplyFailed       = "ApplyFailed"
	// ReasonNoMachineConfigs is the reason of a pool's condition RenderDegraded if no MachineConfig matches its
	// selector any more.
	ReasonNoMachineConfigs = "NoMachineConfigs"
	// ReasonInvalidHold is the reason of a pool's condition RenderDegraded if the config at which a user holds the pool
	// cannot be used.
	ReasonInvalidHold = "InvalidHold"
	// ReasonSourceDeleted is the reason of a pool's condition RenderDegraded if a GitSource was deleted. Its
	// MachineConfigs may be half a commit.
	ReasonSourceDeleted = "SourceDeleted"
)

// ImageWithoutDigestCondition is the type of a MachineConfigPool's condition that is True if an image of the pool's
// config has no digest, so that its nodes may run different images. Such an image comes from a MachineConfig that a
// user created through the API, because Bunsen refuses it in a repository. A pool that never had one lacks the
// condition.
const ImageWithoutDigestCondition = "ImageWithoutDigest"

// RolloutBlockedCondition is the type of a MachineConfigPool's condition that is True while the pool as a whole should
// make progress but does not. Its reason is a poolstate.Cause.
const RolloutBlockedCondition = "RolloutBlocked"

// ReasonNoDigest is the reason of ImageWithoutDigestCondition.
const ReasonNoDigest = "NoDigest"

// IgnitionVersion is the version of all Ignition configs inside Bunsen.
const IgnitionVersion = "3.5.0"
