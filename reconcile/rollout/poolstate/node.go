package poolstate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
)

// Node has what a rollout needs of a corev1.Node. The zero value is a Ready node whose daemon has never reported.
type Node struct {
	Name string
	// shared with the corev1.Node: do not change them
	Labels map[string]string
	// the topology zone; empty if there is none
	Zone    string
	Created time.Time
	Config  Configs
	// one of v1alpha1.State*, of the daemon; empty before its first report
	State string
	// the daemon's text for Degraded or Unreconcilable
	Reason string
	// what the kubelet reports
	Health Health
	// whether and for what the node is cordoned
	Cordon Cordon
	// the progress of the update
	Step Step
	// why a health gate of the node is closed; empty if all are open. The caller of ReadNode sets it.
	Gate string
	// The daemon reports that the node's member of etcd runs. The caller of ReadNode sets it.
	LiveMember bool
	// Other annotations and taints.
	NodeMarks
}

// NodeMarks are annotations and taints of the controller, the daemon and the server.
type NodeMarks struct {
	// the structured form of Reason; zero if the daemon recorded none
	Failure v1alpha1.Failure
	// with the UpdateInProgress taint
	Tainted bool
	// the last postponed drain
	Postponed Postponed
	// the postponed drains for one config
	Drains Drains
	// the config with which the machine claims to have first booted; empty once it is labelled. It only decides whether
	// the server's records are read.
	Booted string
	// The server's records were read. Attested is the pool that they name; empty for none.
	Checked  bool
	Attested string
	Download
	Pinning
}

// Pinning is what a node pulls for the PinnedImageSets of its pool.
type Pinning struct {
	// the digest of the sets of the node's pool; empty for none. Pins: its daemon pulls the images of sets. The caller
	// of Read sets both.
	Images string
	Pins   bool
	// what the node was told to pull, and the daemon's report about it
	Pin    v1alpha1.PinRequest
	Pinned v1alpha1.PinReport
}

// HasImages reports whether the node has all images of its pool's sets, or its daemon does not pull any.
func (p Pinning) HasImages() bool {
	return p.Images == "" || !p.Pins || p.Pinned.Digest == p.Images && p.Pinned.Problem == ""
}

// ImagesFail reports whether the daemon cannot pull or pin an image of the pool's sets now.
func (p Pinning) ImagesFail() bool {
	return p.Images != "" && p.Pinned.Digest == p.Images && p.Pinned.Problem != ""
}

// PullsUntil returns when a pull in progress no longer delays those of other nodes; zero if the node is not told to
// pull the images of its pool's sets.
func (p Pinning) PullsUntil() time.Time {
	if p.Images == "" || p.Pin.Digest != p.Images || p.Pin.Since == nil {
		return time.Time{}
	}
	return p.Pin.Since.Add(maxDownload)
}

// Download is what a node downloads before it is assigned its next config.
type Download struct {
	// The daemon downloads the files of a config before the node is assigned it. The caller of ReadNode sets it.
	Ahead bool
	// the config whose files the node was told to download, and the daemon's report about it
	Next    v1alpha1.NextConfig
	Fetched v1alpha1.FetchReport
}

// maxDownload: later, it no longer delays the downloads of other nodes.
const maxDownload = 10 * time.Minute

// DownloadState is how far a node is with the files of a config.
type DownloadState int

// The values of DownloadState.
const (
	// The controller has not told the node to download the files.
	NotToldToDownload DownloadState = iota
	// The daemon downloads the files, in the second case without a report for a long time.
	Downloading
	DownloadingLong
	// The daemon cannot download a file now, and retries.
	DownloadFails
	// The node has all files.
	Downloaded
)

// Of returns how far the node is with the files of a config.
func (d Download) Of(config string, now time.Time) DownloadState {
	switch {
	case d.Next.Config != config:
		return NotToldToDownload
	case d.Fetched.Config == config && d.Fetched.Problem == "":
		return Downloaded
	case d.Fetched.Config == config:
		return DownloadFails
	case now.Sub(d.Next.Since) >= maxDownload:
		return DownloadingLong
	}
	return Downloading
}

// Late returns when a download in progress no longer delays the downloads of other nodes.
func (d Download) Late() time.Time { return d.Next.Since.Add(maxDownload) }

// Configs are a node's rendered configs and, on layered nodes, images.
type Configs struct {
	// what the node runs, and what it should run; either may be zero
	Current, Desired v1alpha1.ConfigVersion
	// equal on layered nodes, and empty on others; else see StrayImage
	CurrentImage, DesiredImage string
}

// Health is what the kubelet reports about the node.
type Health struct {
	// such as "not Ready (KubeletNotReady)"; empty for a healthy node
	Trouble string
	// The condition Ready is not True. A Ready node has Trouble too if it is short of disk space.
	NotReady bool
	// says that the kubelet does not report, so that the state of the node is unknown; or empty
	Silence string
	// when Trouble began; zero if unknown
	Since time.Time
	// when the node became Ready; zero if it is not, or if unknown
	ReadySince time.Time
}

// Cordon says whether pods may be scheduled on a node.
type Cordon struct {
	// cordoned
	Unschedulable bool
	// the config for which Bunsen cordoned the node; empty if Bunsen did not
	For string
}

// ByAdministrator reports whether the node is cordoned, and not by Bunsen.
func (c Cordon) ByAdministrator() bool { return c.Unschedulable && c.For == "" }

// Step is the progress of a node's update.
type Step struct {
	// The daemon waits for the controller to drain or uncordon the node.
	Draining, Uncordoning bool
	// when the current drain began; zero if unknown
	DrainStarted time.Time
	// why the drain waits, in one line
	DrainStatus string
	// when a PodDisruptionBudget began to forbid the eviction of one of the node's pods; zero if all may be evicted
	HeldUpSince time.Time
	// The daemon has requested a reboot.
	Rebooting bool
}

// ReadNode reads a Node for a rollout. It never fails: an annotation that cannot be parsed counts as missing.
func ReadNode(n *corev1.Node) Node {
	a := n.Annotations
	return Node{
		Name:    n.Name,
		Labels:  n.Labels,
		Zone:    n.Labels[corev1.LabelTopologyZone],
		Created: n.CreationTimestamp.Time,
		Config: Configs{
			Current:      v1alpha1.ReportedConfig(a),
			Desired:      v1alpha1.AssignedConfig(a),
			CurrentImage: a[v1alpha1.CurrentImageAnnotation],
			DesiredImage: a[v1alpha1.DesiredImageAnnotation],
		},
		State:     a[v1alpha1.StateAnnotation],
		Reason:    v1alpha1.TruncateReason(a[v1alpha1.ReasonAnnotation]),
		Health:    readHealth(n.Status.Conditions),
		Cordon:    Cordon{Unschedulable: n.Spec.Unschedulable, For: a[v1alpha1.CordonedAnnotation]},
		Step:      readStep(a),
		NodeMarks: readMarks(n),
	}
}

// Text returns a text about the problem. The parameter duration is a text such as " for 6m".
func (h Health) Text(duration string) string {
	if h.Silence == "" {
		return h.Trouble + duration
	}
	return h.Trouble + duration + ": " + h.Silence
}

// readHealth reads the condition Ready first, although it is the last in the list: the node controller sets all
// conditions to Unknown when a kubelet stops reporting. Pressure conditions count only if they are True.
func readHealth(conditions []corev1.NodeCondition) Health {
	var h Health
	var other *corev1.NodeCondition
	for i := range conditions {
		switch c := &conditions[i]; {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue:
			h.ReadySince = c.LastTransitionTime.Time
		case c.Type == corev1.NodeReady:
			return notReady(c)
		case other == nil && c.Status == corev1.ConditionTrue && pressures[c.Type] != "":
			other = c
		}
	}
	if other != nil {
		h.Trouble, h.Since = pressures[other.Type]+because(other), other.LastTransitionTime.Time
	}
	return h
}

// pressures: conditions that make a Ready node unavailable.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeDiskPressure:       "short of disk space",
	corev1.NodeNetworkUnavailable: "without a network",
}

func notReady(c *corev1.NodeCondition) Health {
	h := Health{Trouble: "not Ready", NotReady: true, Since: c.LastTransitionTime.Time}
	switch {
	case c.Status != corev1.ConditionUnknown:
		h.Trouble += because(c)
	case c.Reason == "NodeStatusNeverUpdated":
		h.Silence = "its kubelet has never reported"
	default:
		h.Silence = "its kubelet stopped reporting"
	}
	return h
}

func because(c *corev1.NodeCondition) string {
	if c.Reason == "" {
		return ""
	}
	return " (" + c.Reason + ")"
}

func readStep(a map[string]string) Step {
	s := Step{
		DrainStatus: a[v1alpha1.DrainStatusAnnotation],
		Rebooting:   a[v1alpha1.PostConfigActionAnnotation] == "Rebooting",
	}
	s.DrainStarted = ParseTime(a[v1alpha1.DrainStartedAnnotation])
	// One in another form is none: the controller reports it.
	asked, _ := v1alpha1.PendingDrain(a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.LastAppliedDrainAnnotation])
	s.Draining, s.Uncordoning = asked.Verb == v1alpha1.DrainVerb, asked.Verb == v1alpha1.UncordonVerb
	if s.Draining {
		s.HeldUpSince = heldUp(a[v1alpha1.DrainReportAnnotation], s.DrainStarted)
	}
	return s
}

// heldUp returns when the first pod of a drain report began to wait for a PodDisruptionBudget. An invalid report counts
// as missing.
func heldUp(report string, began time.Time) time.Time {
	r, err := v1alpha1.ParseDrainReport(report)
	if err != nil {
		return time.Time{}
	}
	for _, p := range r.Pods {
		switch {
		case p.State != v1alpha1.PodWaiting || p.Budget == "":
		case p.Since != nil:
			return p.Since.Time
		default:
			return began
		}
	}
	return time.Time{}
}

func readMarks(n *corev1.Node) NodeMarks {
	m := NodeMarks{
		Tainted: tainted(n.Spec.Taints), Postponed: readPostponed(n.Annotations[v1alpha1.PostponedAnnotation]),
		Drains: readDrains(n.Annotations[v1alpha1.DrainsAnnotation]),
	}
	if f, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation]); err == nil {
		m.Failure = f
	}
	if _, labelled := n.Annotations[v1alpha1.CustomPoolLabelsAppliedAnnotation]; !labelled {
		m.Booted = n.Annotations[v1alpha1.FirstPivotConfigAnnotation]
		m.Attested, m.Checked = n.Annotations[v1alpha1.AttestedPoolAnnotation]
	}
	m.Next = v1alpha1.ParseNextConfig(n.Annotations[v1alpha1.NextConfigAnnotation])
	if r, err := v1alpha1.ParseFetchReport(n.Annotations[v1alpha1.FetchedAnnotation]); err == nil {
		m.Fetched = r
	}
	if r, err := v1alpha1.ParsePinRequest(n.Annotations[v1alpha1.PinAnnotation]); err == nil {
		m.Pin = r
	}
	if r, err := v1alpha1.ParsePinReport(n.Annotations[v1alpha1.PinnedAnnotation]); err == nil {
		m.Pinned = r
	}
	return m
}

func readPostponed(text string) Postponed {
	config, at, _ := strings.Cut(text, " ")
	if t := ParseTime(at); !t.IsZero() {
		return Postponed{For: v1alpha1.ParseConfigVersion(config), At: t}
	}
	return Postponed{}
}

func readDrains(text string) Drains {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Drains{}
	}
	n, err := strconv.Atoi(fields[2])
	if first := ParseTime(fields[1]); err == nil && n > 0 && !first.IsZero() {
		return Drains{For: v1alpha1.ParseConfigVersion(fields[0]), First: first, Postponed: n}
	}
	return Drains{}
}

func tainted(taints []corev1.Taint) bool {
	for _, t := range taints {
		if t.Key == v1alpha1.UpdateInProgressTaint && t.Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}

// ParseTime parses the time of an annotation. It returns the zero time for an invalid text.
func ParseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Postponed is a drain that was postponed to update another node first; the zero value for none.
type Postponed struct {
	For v1alpha1.ConfigVersion
	At  time.Time
}

// String returns the value of PostponedAnnotation; empty for the zero value.
func (p Postponed) String() string {
	if p.For.IsZero() {
		return ""
	}
	return p.For.String() + " " + p.At.UTC().Format(time.RFC3339)
}

// Drains are the postponed drains of a node for one config; the zero value for none.
type Drains struct {
	For v1alpha1.ConfigVersion
	// when the first drain began
	First time.Time
	// how many
	Postponed int
}

// String returns the value of DrainsAnnotation; empty for the zero value.
func (d Drains) String() string {
	if d.For.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s %s %d", d.For, d.First.UTC().Format(time.RFC3339), d.Postponed)
}

// Add adds a drain for a config that the controller postpones now. The parameter began is when the drain started.
func (d Drains) Add(config v1alpha1.ConfigVersion, began time.Time) Drains {
	if d.For != config {
		d = Drains{For: config, First: began}
	}
	d.Postponed++
	return d
}

// PostponedText says how often the drain for the node's desired config was postponed, and when the first one began;
// empty for none.
func (n *Node) PostponedText() string {
	switch {
	case n.Drains.For.IsZero() || n.Drains.For != n.Config.Desired:
		return ""
	case n.Drains.Postponed == 1:
		return ", after a postponed drain at " + FormatTime(n.Drains.First)
	}
	return fmt.Sprintf(", after %d postponed drains, the first at %s", n.Drains.Postponed, FormatTime(n.Drains.First))
}
