package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names for the reports of the controllers and the daemons that they run. Each replica of the controller renews a Lease
// in Bunsen's namespace. The Lease has ServerLabel with the value ControllerComponent, and a ControllerReport in
// ControllerAnnotation. Each daemon writes a DaemonReport to DaemonAnnotation on the MachineConfigNode of its node.
const (
	// ControllerComponent is the value of ServerLabel on a controller's Lease.
	ControllerComponent = "machine-config-controller"
	// NotifierComponent is the value of ServerLabel on the notifier's Lease, and the name of this Lease. It has a
	// ControllerReport too.
	NotifierComponent = "machine-config-notifier"
	// ControllerAnnotation on such a Lease is a ControllerReport as JSON.
	ControllerAnnotation = "bunsen.dev/controller"
	// DaemonAnnotation on a MachineConfigNode is a DaemonReport as JSON. Writer: the daemon.
	DaemonAnnotation = "bunsen.dev/daemon"
)

const (
	// DaemonReportsEvery is the pause between two reports of a daemon. The daemon adds up to a quarter of it at random.
	DaemonReportsEvery = time.Minute
	// DaemonSilentAfter is the age of a report after which a daemon counts as silent: it has missed three reports.
	DaemonSilentAfter = 4 * time.Minute
)

// ControllerReport is the heartbeat of one replica of the controller.
type ControllerReport struct {
	Version string      `json:"version"`
	Started metav1.Time `json:"started"`
	// Pod is namespace/name of the replica's pod. Outside of a pod it is empty, and Host and PID identify the process.
	Pod  string `json:"pod,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Leader is true for the replica that renders and rolls out. The others stand by.
	Leader bool `json:"leader"`
	// Sources are the leader's last polls of the repositories, by the name of the GitSource.
	Sources map[string]SourceLook `json:"sources,omitempty"`
}

// SourceLook is the last poll of a repository.
type SourceLook struct {
	// At is when the controller sent the request.
	At metav1.Time `json:"at"`
	// Problem is why the repository did not answer; empty if it did.
	Problem string `json:"problem,omitempty"`
}

// DaemonReport is the heartbeat of one daemon.
type DaemonReport struct {
	Version string `json:"version"`
	// Form is how the daemon runs: service or pod. It is empty on simulated hosts, and from older daemons.
	Form string `json:"form,omitempty"`
	// Etcd is the state of etcd; nil if the node runs no member of it.
	Etcd *EtcdReport `json:"etcd,omitempty"`
	// Seen is when the daemon wrote the report.
	Seen metav1.Time `json:"seen"`
	// ConfigsFrom is where the daemon last read a config; empty until it has read one. If ReadsAllConfigs is true, the
	// daemon also checks about once an hour whether the server sends it the config in force.
	ConfigsFrom ConfigSource `json:"configsFrom,omitempty"`
	// ReadsAllConfigs is true if the node's identity may read every MachineConfig through the API server, also those of
	// other pools.
	ReadsAllConfigs bool `json:"readsAllConfigs,omitempty"`
	// FetchesAhead is true if the daemon downloads the files of NextConfigAnnotation. Older daemons download them once
	// the config is assigned.
	FetchesAhead bool `json:"fetchesAhead,omitempty"`
	// PinsImages is true if the daemon pulls and pins the images of PinAnnotation. The controller does not wait for the
	// images on nodes with older daemons.
	PinsImages bool `json:"pinsImages,omitempty"`
}

// ConfigSource is where a daemon reads rendered configs.
type ConfigSource string

const (
	// ConfigsFromServer is the machine-config-server, which sends a node only the configs of its own pools.
	ConfigsFromServer ConfigSource = "Server"
	// ConfigsFromAPIServer is the API server, through which a node can read every config or none.
	ConfigsFromAPIServer ConfigSource = "APIServer"
)

// ParseControllerReport reads ControllerAnnotation.
func ParseControllerReport(text string) (ControllerReport, error) {
	var r ControllerReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return ControllerReport{}, fmt.Errorf("reading the annotation %s: %w", ControllerAnnotation, err)
	}
	return r, nil
}

// EtcdReport is the state of etcd, as the daemon of a node with a member sees it.
type EtcdReport struct {
	// Members is how many voting members there are. Healthy is how many of them are healthy.
	Members int `json:"members"`
	Healthy int `json:"healthy"`
	// Down is true if the member of the daemon's node is unhealthy, or nothing listens at its address. While etcd could
	// lose no member, a node that is not Ready is updated only if its member is down.
	Down bool `json:"down,omitempty"`
	// Problem is why the state is unknown; empty if it is known.
	Problem string `json:"problem,omitempty"`
}

// ParseDaemonReport reads DaemonAnnotation.
func ParseDaemonReport(text string) (DaemonReport, error) {
	var r DaemonReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return DaemonReport{}, fmt.Errorf("reading the annotation %s: %w", DaemonAnnotation, err)
	}
	return r, nil
}

// String returns the value of ControllerAnnotation.
func (r ControllerReport) String() string { return marshalled(r) }

// String returns the value of DaemonAnnotation.
func (r DaemonReport) String() string { return marshalled(r) }

// marshalled returns a report as JSON. Reports consist of texts, numbers and times, which always marshal.
func marshalled(report any) string {
	text, err := json.Marshal(report)
	if err != nil {
		return ""
	}
	return string(text)
}
