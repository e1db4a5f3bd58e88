package report

import (
	"slices"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// EventReason is the reason of a Kubernetes event about the Node, with the spelling of the original daemon.
type EventReason string

// The event reasons. The machine-config-operator does not have EventRejected, EventRolledBack, EventFetchFailed,
// EventPullFailed, EventUnitNotEnabled and EventKeysNotRead.
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
	EventKeysNotRead          EventReason = "KeysNotRead"
)

// warnings are the reasons of events of type Warning.
var warnings = []EventReason{
	EventFailedToDrain, EventFailedServiceReload, EventFailedServiceRestart, EventFailedToReconcile,
	EventDiskStateFailed,
	EventPreflightFailed, EventDriftDetected, EventGotSigterm, EventRejected, EventRolledBack, EventFetchFailed,
	EventPullFailed, EventUnitNotEnabled, EventKeysNotRead,
}

// IsWarning reports whether events with this reason have the type Warning.
func (r EventReason) IsWarning() bool { return slices.Contains(warnings, r) }

// maxLine is the maximum number of characters in the result of OneLine.
const maxLine = 72

// OneLine returns a text that a user wrote, such as the subject of a commit, as one short line that is safe to print.
func OneLine(text string) string {
	return truncate(safetext.Strip(strings.ToValidUTF8(text, "")), maxLine)
}

// NotYetSet is the value for a name that the API requires and that is unknown.
const NotYetSet = "not-yet-set"

// The API's limits for irreconcilable changes.
const (
	maxChanges   = 32
	maxFieldPath = 70
	maxDiff      = 4096
)

// Owners returns the object's owner: its Node. While the Node's UID is unknown, the object has no owner.
func (s Status) Owners() []metav1.OwnerReference {
	if s.Node.UID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.NodeName, UID: types.UID(s.Node.UID)}}
}

// Spec returns the object's spec: the node, its pool and its desired config.
func (s Status) Spec() mcfgv1.MachineConfigNodeSpec {
	var spec mcfgv1.MachineConfigNodeSpec
	spec.Node.Name = s.NodeName
	spec.Pool.Name = validName(v1alpha1.RenderedPool(v1alpha1.ParseConfigVersion(s.Node.Desired).Config))
	spec.ConfigVersion.Desired = validName(s.Node.Desired)
	return spec
}

// ObjectStatus returns the object's status. The parameter before is the present status; the zero value for none. The
// parameter generation is the generation of the object. The desired config in a status must be one that the node can
// apply; until the daemon knows that, it is NotYetSet. An unknown current config is "". The API rejects "", so the
// caller leaves the field out.
func (s Status) ObjectStatus(before mcfgv1.MachineConfigNodeStatus, generation int64,
	now metav1.Time,
) mcfgv1.MachineConfigNodeStatus {
	version := mcfgv1.MachineConfigNodeStatusMachineConfigVersion{Desired: NotYetSet}
	if s.isPlanned() || s.isUpdated() {
		version.Desired = validName(s.Node.Desired)
	}
	if current := validName(s.Node.Current); current != NotYetSet {
		version.Current = current
	}
	return mcfgv1.MachineConfigNodeStatus{
		Conditions: s.conditions(before.Conditions, now), ObservedGeneration: max(before.ObservedGeneration,
			generation),
		ConfigVersion: &version, IrreconcilableChanges: s.irreconcilable(),
	}
}

// SameStatus reports whether a status contains everything of the other status, in any order. SameStatus ignores
// conditions that other programs added.
func SameStatus(is, should mcfgv1.MachineConfigNodeStatus) bool {
	for _, c := range should.Conditions {
		if !slices.Contains(is.Conditions, c) {
			return false
		}
	}
	return is.ConfigVersion != nil && should.ConfigVersion != nil && *is.ConfigVersion == *should.ConfigVersion &&
		is.ObservedGeneration == should.ObservedGeneration && slices.Equal(is.IrreconcilableChanges,
		should.IrreconcilableChanges)
}

// validName returns the name of a rendered config, without the revision of its secrets, if the API accepts the name, or
// NotYetSet.
func validName(at string) string {
	name := v1alpha1.ParseConfigVersion(at).Config
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return NotYetSet
	}
	return name
}

// irreconcilable returns the refusals. irreconcilable joins the refusals about one field.
func (s Status) irreconcilable() (all []mcfgv1.IrreconcilableChangeDiff) {
	if s.Phase != Refused {
		return nil
	}
	at := map[string]int{}
	for _, r := range s.Refusals {
		path := fieldPath(r.Field)
		text := strings.TrimLeft(r.Field+": "+r.Why, ": ")
		if i, known := at[path]; known {
			all[i].Diff = truncate(all[i].Diff+"\n"+text, maxDiff)
			continue
		}
		if len(all) == maxChanges {
			break
		}
		at[path] = len(all)
		all = append(all, mcfgv1.IrreconcilableChangeDiff{FieldPath: path, Diff: truncate(text, maxDiff)})
	}
	return all
}

// fieldPath returns the path of the field that a refusal is about: for `storage.files /etc/motd append` it is
// `spec.config.storage.files`.
func fieldPath(field string) string {
	section, of, _ := strings.Cut(field, " ")
	part, _, _ := strings.Cut(section, ".")
	switch {
	case section == "" || strings.HasPrefix(section, "/"):
		section = "config"
	case part == "storage", part == "systemd", part == "passwd", part == "ignition", of == "(of Ignition)":
		section = "config." + section
	}
	path := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || r != '.' && r != '[' && r != ']' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, "spec."+section)
	return path[:min(len(path), maxFieldPath)]
}

// truncate shortens a text to a number of characters.
func truncate(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
