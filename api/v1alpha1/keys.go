package v1alpha1

// Keys on objects that Bunsen writes. A rendered config carries the Commit* set of the commit that first produced its
// content; they are never rewritten (see docs/adr and `bunsen trace`).
const (
	// SourceLabel on a fragment or cluster object names the GitSource that owns it.
	SourceLabel = "bunsen.dev/source"
	// DigestAnnotation on a fragment or cluster object is the sha256 of what the source wants there.
	DigestAnnotation = "bunsen.dev/digest"
	// WantedAnnotation on an object of `cluster/` is what the repository says of it, as JSON; DigestAnnotation is its digest.
	WantedAnnotation = "bunsen.dev/wanted"
	// SelectedAnnotation on a pool is the digest of the MachineConfigs that its config was rendered from, or could not be
	// rendered from. The pool is not rolled out while the live ones differ from it. Writer: the controller.
	SelectedAnnotation = "bunsen.dev/selected"
	// NotRenderedAnnotation on a pool is the newest revision under which the pool could not be rendered; the pool's condition
	// RenderDegraded has the reason. It is absent while the newest revision renders. Writer: the controller.
	NotRenderedAnnotation = "bunsen.dev/not-rendered"
	// TargetAnnotation on a pool is a PoolTarget as JSON: who asked for the config that the pool should run. Writer: the
	// controller.
	TargetAnnotation = "bunsen.dev/target"
	// RequestAnnotation on a Node is a ConfigRequest as JSON: who asked for its desired config. On a rendered config it is there where
	// changes through the API first asked for the config. Writer: the controller.
	RequestAnnotation = "bunsen.dev/requested-by"
	// StandardAnnotation on the pool master or worker lists the fields of its spec that the controller set and restores, with commas
	// between them. It is absent on a pool that a user created. Writer: the controller.
	StandardAnnotation = "bunsen.dev/standard-fields"
	// SourceSpecAnnotation on a pool is the spec of the GitSource of SourceAnnotation as JSON, without credentials in its URL, so that a
	// GitSource that a user deleted can be created again. Writer: the controller.
	SourceSpecAnnotation = "bunsen.dev/source-spec"
	// FileAnnotation on a fragment lists the repository files it was made from, as JSON [{"file","blob"}].
	FileAnnotation = "bunsen.dev/files"

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
	// VerifiedByAnnotation names the key that signed the commit; absent where no signature was asked for.
	VerifiedByAnnotation = "bunsen.dev/verified-by"
	// InputsAnnotation is JSON {"fragment name": "digest"} of all that went into a rendered config.
	InputsAnnotation = "bunsen.dev/inputs"
	// RendererAnnotation is the version of Bunsen that rendered the config.
	RendererAnnotation = "bunsen.dev/renderer"

	// ReconcileAnnotation on a GitSource asks for a fetch now; any new value counts, by habit a time.
	ReconcileAnnotation = "bunsen.dev/reconcile"

	// CordonedAnnotation on a Node says that Bunsen cordoned it (value: the rendered config it did so for), so that an
	// administrator's own cordon is never lifted.
	CordonedAnnotation = "bunsen.dev/cordoned-for"
	// DrainStartedAnnotation on a Node is when the drain under way began, RFC 3339 in UTC.
	DrainStartedAnnotation = "bunsen.dev/drain-started"
	// DrainStatusAnnotation on a Node is one line on what a drain waits for.
	DrainStatusAnnotation = "bunsen.dev/drain-status"
	// DrainReportAnnotation on a Node is a DrainReport as JSON while a drain is under way, else absent.
	DrainReportAnnotation = "bunsen.dev/drain-report"
	// PostponedAnnotation on a Node: its drain for a config was given up to take another node first. The value is the
	// rendered config and the time, RFC 3339 in UTC, with a blank between them. Writer: the controller.
	PostponedAnnotation = "bunsen.dev/postponed"
	// DrainsAnnotation on a Node: its drains for a config were postponed. The value is the rendered config, when the first of them
	// began, RFC 3339 in UTC, and how many there were, with blanks between them. Writer: the controller.
	DrainsAnnotation = "bunsen.dev/postponed-drains"
	// RetryAnnotation on a Node or a MachineConfigPool asks to try again what failed before this time, RFC 3339. It stays
	// there; what failed later than that is not tried again by it.
	RetryAnnotation = "bunsen.dev/retry"
	// RolloutAnnotation on a MachineConfigPool is a RolloutRecord as JSON. Writer: the controller.
	RolloutAnnotation = "bunsen.dev/rollout"
	// RolloutHistoryAnnotation on a MachineConfigPool is a list of RolloutOutcome as JSON, newest first: how the rollouts before
	// that of RolloutAnnotation ended. Writer: the controller.
	RolloutHistoryAnnotation = "bunsen.dev/rollout-history"
	// PausedByAnnotation on a MachineConfigPool says who paused it and why, in words.
	PausedByAnnotation = "bunsen.dev/paused-by"
	// OpenUntilAnnotation on a MachineConfigPool lets it be rolled out outside of its maintenance windows until this time,
	// RFC 3339.
	OpenUntilAnnotation = "bunsen.dev/open-until"
	// AttestedPoolAnnotation on a Node: the pool for which the server let its machine in, as the controller found it in the server's
	// records; empty where no record names one. Writer: the controller, once, where a node says that it booted for a custom pool.
	AttestedPoolAnnotation = "bunsen.dev/attested-pool"
	// GateLabel on a CronJob and on its Namespace, `true`, lets job gates of RolloutPolicies run it. On a Job it names the gate that
	// made it.
	GateLabel = "bunsen.dev/gate"
	// DriftAnnotation on a Node is a Drift as JSON; empty while all is as the config in force has it. Writer: the
	// daemon.
	DriftAnnotation = "bunsen.dev/drift"
	// FailureAnnotation on a Node is a Failure as JSON while its daemon reports one, else empty. Writer: the daemon.
	FailureAnnotation = "bunsen.dev/failure"
)

// Keys of the machine-config API that Bunsen shares with every other speaker of it
// (openshift/machine-config-operator, docs/MachineConfigDaemon.md).
const (
	// RoleLabel on a MachineConfig names its role; a pool's selector picks by it.
	RoleLabel = "machineconfiguration.openshift.io/role"
	// CurrentConfigAnnotation on a Node: the rendered config that is in force there. Writer: the daemon.
	CurrentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	// DesiredConfigAnnotation on a Node: the rendered config that should be in force. Writer: the controller.
	DesiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
	// StateAnnotation on a Node: one of the State* words. Writer: the daemon.
	StateAnnotation = "machineconfiguration.openshift.io/state"
	// ReasonAnnotation on a Node: why it is Degraded or Unreconcilable, at most 2000 characters, else empty.
	ReasonAnnotation = "machineconfiguration.openshift.io/reason"
	// DesiredDrainAnnotation on a Node: `drain-<rendered>` or `uncordon-<rendered>`. Writer: the daemon.
	DesiredDrainAnnotation = "machineconfiguration.openshift.io/desiredDrain"
	// LastAppliedDrainAnnotation on a Node: a copy of desiredDrain once it is done. Writer: the controller.
	LastAppliedDrainAnnotation = "machineconfiguration.openshift.io/lastAppliedDrain"
	// PostConfigActionAnnotation on a Node: `Rebooting` while it does, else empty. Writer: the daemon.
	PostConfigActionAnnotation = "machineconfiguration.openshift.io/post-config-action"
	// FirstPivotConfigAnnotation on a Node: the rendered config it first booted with. Seeded by the server.
	FirstPivotConfigAnnotation = "machineconfiguration.openshift.io/firstPivotConfig"
	// CustomPoolLabelsAppliedAnnotation on a Node: the labels of the custom pool that it first booted for were put on it, once.
	// The value is empty. Writer: the controller.
	CustomPoolLabelsAppliedAnnotation = "machineconfiguration.openshift.io/customPoolLabelsApplied"
	// CurrentImageAnnotation and DesiredImageAnnotation exist on layered nodes only; Bunsen reads them, to judge such nodes right.
	CurrentImageAnnotation = "machineconfiguration.openshift.io/currentImage"
	// DesiredImageAnnotation: see CurrentImageAnnotation.
	DesiredImageAnnotation = "machineconfiguration.openshift.io/desiredImage"
	// SSHAnnotation on a Node is SSHAccessed from when somebody was first logged in there over SSH. Writer: the daemon, which
	// never takes it back.
	SSHAnnotation = "machineconfiguration.openshift.io/ssh"
	// GeneratedByAnnotation on a MachineConfig marks one that a controller generated.
	GeneratedByAnnotation = "machineconfiguration.openshift.io/generated-by-controller-version"
	// UpdateInProgressTaint is put (PreferNoSchedule) on each node of a pool that does not yet want the pool's config.
	UpdateInProgressTaint = "UpdateInProgress"
)

// Values of StateAnnotation.
const (
	StateWorking        = "Working"
	StateDone           = "Done"
	StateDegraded       = "Degraded"
	StateUnreconcilable = "Unreconcilable"
)

// SSHAccessed is the one value of SSHAnnotation.
const SSHAccessed = "accessed"

// Verbs of DesiredDrainAnnotation, before the dash.
const (
	DrainVerb    = "drain"
	UncordonVerb = "uncordon"
)

// Condition types of a GitSource (kstatus).
const (
	// ReadyCondition: the newest commit is on the cluster.
	ReadyCondition = "Ready"
	// ReconcilingCondition: work is under way or will be tried again by itself.
	ReconcilingCondition = "Reconciling"
	// StalledCondition: a person has to change something.
	StalledCondition = "Stalled"
)

// Reasons of a GitSource's conditions and of its events.
const (
	ReasonSucceeded        = "Succeeded"
	ReasonProgressing      = "Progressing"
	ReasonSuspended        = "Suspended"
	ReasonUnreachable      = "RepositoryUnreachable"
	ReasonAuthentication   = "AuthenticationFailed"
	ReasonRefNotFound      = "RefNotFound"
	ReasonPathNotFound     = "PathNotFound"
	ReasonInvalidSpec      = "InvalidSpec"
	ReasonInvalidTree      = "InvalidTree"
	ReasonTranspileFailed  = "TranspileFailed"
	ReasonConflict         = "OwnershipConflict"
	ReasonPoolMissing      = "PoolMissing"
	ReasonHistoryRewritten = "HistoryRewritten"
	ReasonSignature        = "SignatureMissing"
	ReasonApplyFailed      = "ApplyFailed"
	// ReasonNoMachineConfigs is the reason of a pool's condition RenderDegraded: no MachineConfig matches its selector any more.
	ReasonNoMachineConfigs = "NoMachineConfigs"
	// ReasonSourceDeleted is the reason of a pool's condition RenderDegraded: a GitSource is gone, and what it left may be half a commit.
	ReasonSourceDeleted = "SourceDeleted"
)

// Version of the machine-config API's Ignition that everything inside Bunsen speaks.
const IgnitionVersion = "3.5.0"
