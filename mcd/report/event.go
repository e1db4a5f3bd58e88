package report

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// EventReason is the reason of a Kubernetes event about the Node, with the spelling of the original daemon.
type EventReason string

// The event reasons. The machine-config-operator does not have EventRejected, EventRolledBack, EventFetchFailed,
// EventPullFailed and EventUnitNotEnabled.
const (
	EventDrain                EventReason = "Drain"
	EventFailedToDrain        EventReason = "FailedToDrain"
	EventReboot               EventReason = "Reboot"
	EventSkipReboot           EventReason = "SkipReboot"
	EventServiceReload        EventReason = "ServiceReload"
	EventServiceRestart       EventReason = "ServiceRestart"
	EventFailedServiceReload  EventReason = "FailedServiceReload"
	EventFailedServiceRestart EventReason = "FailedServiceRestart"
	EventInClusterUpgrade     EventReason = "InClusterUpgrade"
	EventOSUpdateStarted      EventReason = "OSUpdateStarted"
	EventOSUpdateStaged       EventReason = "OSUpdateStaged"
	EventFailedToReconcile    EventReason = "FailedToReconcile"
	EventNodeDone             EventReason = "NodeDone"
	EventBootResync           EventReason = "BootResync"
	EventDiskStateFailed      EventReason = "OnDiskStateValidationFailed"
	EventPreflightFailed      EventReason = "PreflightConfigDriftCheckFailed"
	EventDriftDetected        EventReason = "ConfigDriftDetected"
	EventGotSigterm           EventReason = "GotSigtermDuringUpdate"
	EventRejected             EventReason = "ConfigRejected"
	EventRolledBack           EventReason = "WentBack"
	EventFetchFailed          EventReason = "FetchFailed"
	EventPullFailed           EventReason = "PinnedImagesFailed"
	EventUnitNotEnabled       EventReason = "UnitNotEnabled"
)

// warnings are the reasons of events of type Warning.
var warnings = []EventReason{
	EventFailedToDrain, EventFailedServiceReload, EventFailedServiceRestart, EventFailedToReconcile,
	EventDiskStateFailed,
	EventPreflightFailed, EventDriftDetected, EventGotSigterm, EventRejected, EventRolledBack, EventFetchFailed,
	EventPullFailed, EventUnitNotEnabled,
}

// IsWarning reports whether events with this reason have the type Warning.
func (r EventReason) IsWarning() bool { return slices.Contains(warnings, r) }

// maxLine is the maximum number of characters in the result of OneLine.
const maxLine = 72

// OneLine returns a text that a user wrote, such as the subject of a commit, as one short line that is safe to print.
func OneLine(text string) string {
	return truncate(safetext.Strip(strings.ToValidUTF8(text, "")), maxLine)
}
