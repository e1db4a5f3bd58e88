package protocol

// Reason is the reason of a Kubernetes event about the Node, spelt as the original's daemon does.
type Reason string

// The reasons. Those from EventRejected on are this project's own.
const (
	EventDrain                Reason = "Drain"
	EventFailedToDrain        Reason = "FailedToDrain"
	EventUncordon             Reason = "Uncordon"
	EventReboot               Reason = "Reboot"
	EventSkipReboot           Reason = "SkipReboot"
	EventServiceReload        Reason = "ServiceReload"
	EventServiceRestart       Reason = "ServiceRestart"
	EventFailedServiceReload  Reason = "FailedServiceReload"
	EventFailedServiceRestart Reason = "FailedServiceRestart"
	EventInClusterUpgrade     Reason = "InClusterUpgrade"
	EventOSUpdateStarted      Reason = "OSUpdateStarted"
	EventOSUpdateStaged       Reason = "OSUpdateStaged"
	EventOSUpgradeApplied     Reason = "OSUpgradeApplied"
	EventFailedToReconcile    Reason = "FailedToReconcile"
	EventNodeDone             Reason = "NodeDone"
	EventBootResync           Reason = "BootResync"
	EventDiskStateFailed      Reason = "OnDiskStateValidationFailed"
	EventPreflightFailed      Reason = "PreflightConfigDriftCheckFailed"
	EventDriftDetected        Reason = "ConfigDriftDetected"
	EventGotSigterm           Reason = "GotSigtermDuringUpdate"
	EventRejected             Reason = "ConfigRejected"
	EventWentBack             Reason = "WentBack"
)

// Warns tells reasons that are events of type Warning.
func (r Reason) Warns() bool {
	switch r {
	case EventFailedToDrain, EventFailedServiceReload, EventFailedServiceRestart, EventFailedToReconcile, EventDiskStateFailed,
		EventPreflightFailed, EventDriftDetected, EventGotSigterm, EventRejected, EventWentBack:
		return true
	}
	return false
}
