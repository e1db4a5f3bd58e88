package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How the controllers and the daemons report that they run. Each replica of the controller keeps a Lease in Bunsen's own
// namespace, with ServerLabel set to ControllerComponent and a ControllerReport in ControllerAnnotation. Each daemon keeps a
// DaemonReport in DaemonAnnotation on the MachineConfigNode of its node.
const (
	// ControllerComponent is the value of ServerLabel on a controller's Lease.
	ControllerComponent = "machine-config-controller"
	// ControllerAnnotation on such a Lease is a ControllerReport as JSON.
	ControllerAnnotation = "bunsen.dev/controller"
	// DaemonAnnotation on a MachineConfigNode is a DaemonReport as JSON. Writer: the daemon.
	DaemonAnnotation = "bunsen.dev/daemon"
)

const (
	// DaemonReportsEvery is the pause between two reports of a daemon; up to a quarter of it is added at random.
	DaemonReportsEvery = time.Minute
	// DaemonSilentAfter is the age of a report at which a daemon counts as silent: it has missed three.
	DaemonSilentAfter = 4 * time.Minute
)

// ControllerReport is what one replica of the controller does at the moment.
type ControllerReport struct {
	// Version of the program.
	Version string `json:"version"`
	// Started is when the process began.
	Started metav1.Time `json:"started"`
	// Pod is namespace/name of the pod that the replica runs in; empty outside of one. Host and PID are then those of its process.
	Pod  string `json:"pod,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Leader says that this replica renders and rolls out; the others stand by.
	Leader bool `json:"leader"`
	// Sources are the leader's last looks at the repositories, by the name of the GitSource.
	Sources map[string]SourceLook `json:"sources,omitempty"`
}

// SourceLook is the last time that a controller asked a repository for its refs.
type SourceLook struct {
	// At is when it asked.
	At metav1.Time `json:"at"`
	// Problem is why the repository did not answer; empty if it did.
	Problem string `json:"problem,omitempty"`
}

// DaemonReport is the heartbeat of one daemon.
type DaemonReport struct {
	// Version of the program.
	Version string `json:"version"`
	// Seen is when the daemon wrote the report.
	Seen metav1.Time `json:"seen"`
}

// ParseControllerReport reads ControllerAnnotation.
func ParseControllerReport(text string) (ControllerReport, error) {
	var r ControllerReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return ControllerReport{}, fmt.Errorf("reading the annotation %s: %w", ControllerAnnotation, err)
	}
	return r, nil
}

// ParseDaemonReport reads DaemonAnnotation.
func ParseDaemonReport(text string) (DaemonReport, error) {
	var r DaemonReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return DaemonReport{}, fmt.Errorf("reading the annotation %s: %w", DaemonAnnotation, err)
	}
	return r, nil
}

// String is the report as ControllerAnnotation has it.
func (r ControllerReport) String() string { return marshalled(r) }

// String is the report as DaemonAnnotation has it.
func (r DaemonReport) String() string { return marshalled(r) }

// marshalled is a report as JSON. Reports consist of texts, numbers and times, which always marshal.
func marshalled(report any) string {
	text, err := json.Marshal(report)
	if err != nil {
		return ""
	}
	return string(text)
}
