package v1alpha1

// Writer is who may write an annotation of a Node, besides administrators.
type Writer string

const (
	// DaemonWriter is the machine-config-daemon of the node, with its kubelet's identity.
	DaemonWriter Writer = "daemon"
	// ControllerWriter is the machine-config-controller.
	ControllerWriter Writer = "controller"
	// AdministratorWriter is a user with the right to write Nodes, and nobody else.
	AdministratorWriter Writer = "administrator"
	// RegistrationWriter is the daemon, in the first report of a machine.
	RegistrationWriter Writer = "daemon in its first report"
)

// NodeAnnotation says who writes one annotation of Nodes, and what. The policies of config/rbac/nodes-admission.yaml
// and controller-admission.yaml refuse all other writes of nodes and of the controller.
type NodeAnnotation struct {
	Key    string
	Writer Writer
	// Registers is true for an annotation of the controller that the daemon also writes in its first report, while the
	// controller has not assigned a config.
	Registers bool
	// Form is a regular expression for the values that a node may write; empty for any value.
	Form string
	// Stays is true if the node cannot remove the annotation or make it empty.
	Stays bool
}

// MaxNodeReport is the largest value that a node may write into one annotation, in characters.
const MaxNodeReport = 64 << 10

// Forms of values that nodes write.
const (
	objectNameForm = `^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`
	revisionForm   = `^[0-9a-f]*$`
)

// NodeAnnotations returns all annotations of Nodes that are Bunsen's, each with its one writer.
func NodeAnnotations() []NodeAnnotation {
	return []NodeAnnotation{
		{Key: CurrentConfigAnnotation, Writer: DaemonWriter, Form: objectNameForm, Stays: true},
		{Key: StateAnnotation, Writer: DaemonWriter, Form: `^(|Working|Done|Degraded|Unreconcilable)$`},
		{Key: ReasonAnnotation, Writer: DaemonWriter},
		{Key: DesiredDrainAnnotation, Writer: DaemonWriter, Form: `^((drain|uncordon)-[a-z0-9.-]+(_[0-9]{1,9})?)?$`},
		{Key: PostConfigActionAnnotation, Writer: DaemonWriter, Form: `^(|Rebooting)$`},
		{Key: SSHAnnotation, Writer: DaemonWriter, Form: `^accessed$`},
		{Key: CurrentSecretsAnnotation, Writer: DaemonWriter, Form: revisionForm},
		{Key: DriftAnnotation, Writer: DaemonWriter},
		{Key: FailureAnnotation, Writer: DaemonWriter},
		{Key: FetchedAnnotation, Writer: DaemonWriter},
		{Key: PinnedAnnotation, Writer: DaemonWriter},
		{Key: TrustReportAnnotation, Writer: DaemonWriter},
		{Key: WithheldAnnotation, Writer: DaemonWriter, Form: objectNameForm},

		{Key: FirstPivotConfigAnnotation, Writer: RegistrationWriter, Form: objectNameForm},
		{Key: DesiredConfigAnnotation, Writer: ControllerWriter, Registers: true, Form: objectNameForm},
		{Key: DesiredSecretsAnnotation, Writer: ControllerWriter, Registers: true, Form: revisionForm},

		{Key: CurrentImageAnnotation, Writer: ControllerWriter},
		{Key: DesiredImageAnnotation, Writer: ControllerWriter},
		{Key: LastAppliedDrainAnnotation, Writer: ControllerWriter},
		{Key: CustomPoolLabelsAppliedAnnotation, Writer: ControllerWriter},
		{Key: AttestedPoolAnnotation, Writer: ControllerWriter},
		{Key: CordonedAnnotation, Writer: ControllerWriter},
		{Key: ScaleDownAnnotation, Writer: ControllerWriter},
		{Key: DrainStartedAnnotation, Writer: ControllerWriter},
		{Key: DrainStatusAnnotation, Writer: ControllerWriter},
		{Key: DrainReportAnnotation, Writer: ControllerWriter},
		{Key: PostponedAnnotation, Writer: ControllerWriter},
		{Key: DrainsAnnotation, Writer: ControllerWriter},
		{Key: RequestAnnotation, Writer: ControllerWriter},
		{Key: NextConfigAnnotation, Writer: ControllerWriter},
		{Key: PinAnnotation, Writer: ControllerWriter},

		{Key: RetryAnnotation, Writer: AdministratorWriter},
	}
}

// ScaleDownAnnotations returns the annotations with which cluster-autoscaler and Karpenter leave a Node alone. They are
// not Bunsen's, but the controller sets them to "true" while a node has its cordon.
func ScaleDownAnnotations() []string {
	return []string{"cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"}
}
