package poolstate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
)

// Node has the data of a corev1.Node that a rollout needs. The function Read returns a Node. The zero value is a Ready
// node whose daemon has never reported.
type Node struct {
	// Name is the name of the node.
	Name string
	// Labels are the labels of the node. The map is shared with the corev1.Node, so callers must not change it.
	Labels map[string]string
	// Zone is the node's topology zone, empty if it has none.
	Zone string
	// Created is the creation time of the Node.
	Created time.Time
	// Config has the current and the desired config.
	Config Configs
	// State is one of v1alpha1.State*, as the daemon reports; empty before its first report.
	State string
	// Reason is the daemon's text for the state Degraded or Unreconcilable.
	Reason string
	// Health is what the kubelet reports.
	Health Health
	// Cordon says whether the node is cordoned, and for what.
	Cordon Cordon
	// Step is the progress of the node's update.
	Step Step
	// Gate is why a health gate of the node is closed; empty if all are open. The caller of Read sets Gate.
	Gate string
	// LiveMember is true if the daemon reports that the node's member of etcd runs. The caller of Read sets LiveMember.
	LiveMember bool
	// Marks are other annotations and taints.
	NodeMarks
}

// NodeMarks are annotations and taints of the controller, the daemon and the server.
type NodeMarks struct {
	// Failure is the structured form of Reason; zero if the daemon recorded none. Its Config includes the revision of
	// the secrets.
	Failure v1alpha1.Failure
	// Tainted is true if the node has the UpdateInProgress taint.
	Tainted bool
	// Postponed is the last drain of the node that was postponed.
	Postponed Postponed
	// Drains counts the postponed drains for one config.
	Drains Drains
	// Booted is the rendered config with which the machine claims to have first booted; empty once the controller has
	// labelled the node. Booted only decides whether the controller reads the server's records.
	Booted string
	// Checked is true once the controller has read the server's records. Attested is the pool that the records name;
	// empty for none.
	Checked  bool
	Attested string
	Download
	Pinning
}

// Pinning is what a node pulls for the PinnedImageSets of its pool.
type Pinning struct {
	// Images is the digest of the sets of the node's pool; empty for no sets. Pins is true if the node's daemon pulls
	// the images of sets. The caller of Read sets both.
	Images string
	Pins   bool
	// Pin is what the controller told the node to pull. Pinned is the daemon's report about it.
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

// PullsUntil returns when a pull in progress no longer delays the pulls of other nodes; zero if the node is not told to
// pull the images of its pool's sets.
func (p Pinning) PullsUntil() time.Time {
	if p.Images == "" || p.Pin.Digest != p.Images || p.Pin.Since == nil {
		return time.Time{}
	}
	return p.Pin.Since.Add(maxDownload)
}

// Download is what a node downloads before it is assigned its next config.
type Download struct {
	// Ahead is true if the node's daemon downloads the files of a config before the node is assigned the config. The
	// caller of Read sets Ahead.
	Ahead bool
	// Next is the config that the controller told the node to download files of. Fetched is the daemon's report about
	// it.
	Next    v1alpha1.NextConfig
	Fetched v1alpha1.FetchReport
}

// maxDownload is how long a download counts as in progress. Later, it no longer delays the downloads of other nodes.
const maxDownload = 10 * time.Minute

// DownloadState is how far a node is with the files of a config.
type DownloadState int

// The values of DownloadState.
const (
	// NotToldToDownload: the controller has not told the node to download the files.
	NotToldToDownload DownloadState = iota
	// Downloading: the daemon downloads the files. DownloadingLong: the daemon has not reported for a long time.
	Downloading
	DownloadingLong
	// DownloadFails: the daemon cannot download a file now, and retries.
	DownloadFails
	// Downloaded: the node has all files.
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
	// Current is the config that the node runs. Desired is the config that it should run. Current or Desired may be
	// empty. A config with secrets includes their revision, as v1alpha1.ConfigAt writes it. So a new revision is
	// another config.
	Current, Desired string
	// CurrentImage and DesiredImage are equal on layered nodes, and empty on others. Others: see StrayImage.
	CurrentImage, DesiredImage string
}

// Health is what the kubelet reports about the node.
type Health struct {
	// Trouble describes the problem, such as "not Ready (KubeletNotReady)"; empty for a healthy node.
	Trouble string
	// NotReady is true if the condition Ready is not True. A Ready node has Trouble too if it is short of disk space.
	NotReady bool
	// Silence is a text that says that the kubelet does not report, so that the state of the node is unknown. Silence
	// is empty if the kubelet reports.
	Silence string
	// Since is when Trouble began; zero if the time is unknown.
	Since time.Time
	// ReadySince is when the node became Ready; zero if it is not Ready, or if the time is unknown.
	ReadySince time.Time
}

// Cordon says whether pods may be scheduled on a node.
type Cordon struct {
	// Unschedulable is true on a cordoned node.
	Unschedulable bool
	// For is the rendered config for which Bunsen cordoned the node; empty if Bunsen did not.
	For string
}

// ByAdministrator reports whether the node is cordoned, and not by Bunsen.
func (c Cordon) ByAdministrator() bool { return c.Unschedulable && c.For == "" }

// Step is the progress of a node's update.
type Step struct {
	// Draining and Uncordoning are true while the daemon waits for the controller to drain or uncordon the node.
	Draining, Uncordoning bool
	// DrainStarted is when the current drain began; zero if the time is unknown.
	DrainStarted time.Time
	// DrainStatus is one line on why the drain waits.
	DrainStatus string
	// HeldUpSince is when a PodDisruptionBudget began to forbid the eviction of one of the node's pods; zero if all
	// pods may be evicted.
	HeldUpSince time.Time
	// Rebooting is true once the daemon has requested a reboot.
	Rebooting bool
}

// ReadNode reads a Node for a rollout. Read never fails: an annotation that cannot be parsed counts as missing.
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

// readHealth reads the kubelet's conditions. readHealth reads the condition Ready first, although it is the last in the
// list, because the node controller sets all conditions to Unknown when a kubelet stops reporting. Pressure conditions
// count only if they are True.
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

// pressures describes the conditions that make a Ready node unavailable.
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
	// A request in another form is no request: the controller reports it.
	asked, _ := v1alpha1.PendingDrain(a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.LastAppliedDrainAnnotation])
	s.Draining, s.Uncordoning = asked.Verb == v1alpha1.DrainVerb, asked.Verb == v1alpha1.UncordonVerb
	if s.Draining {
		s.HeldUpSince = heldUp(a[v1alpha1.DrainReportAnnotation], s.DrainStarted)
	}
	return s
}

// heldUp returns when the first pod of a drain report began to wait for a PodDisruptionBudget. An invalid report
// counts as missing.
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
		m.Failure.Config = v1alpha1.ConfigAt(f.Config, f.Secrets) // like Config.Desired
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

// readPostponed is the inverse of Postponed.String.
func readPostponed(text string) Postponed {
	config, at, _ := strings.Cut(text, " ")
	if t := ParseTime(at); !t.IsZero() {
		return Postponed{For: config, At: t}
	}
	return Postponed{}
}

// readDrains is the inverse of Drains.String.
func readDrains(text string) Drains {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Drains{}
	}
	n, err := strconv.Atoi(fields[2])
	if first := ParseTime(fields[1]); err == nil && n > 0 && !first.IsZero() {
		return Drains{For: fields[0], First: first, Postponed: n}
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

// ParseTime parses the time of an annotation. ParseTime returns the zero time for an invalid text.
func ParseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Postponed is a drain that was postponed to update another node first; the zero value for none.
type Postponed struct {
	// For is the rendered config that the node was drained for.
	For string
	// At is when the drain was postponed.
	At time.Time
}

// String returns the value of PostponedAnnotation; empty for the zero value.
func (p Postponed) String() string {
	if p.For == "" {
		return ""
	}
	return p.For + " " + p.At.UTC().Format(time.RFC3339)
}

// Drains are the postponed drains of a node for one config; the zero value for none.
type Drains struct {
	// For is the rendered config of the drains.
	For string
	// First is when the first of the drains began.
	First time.Time
	// Postponed is the number of postponed drains.
	Postponed int
}

// String returns the value of DrainsAnnotation; empty for the zero value.
func (d Drains) String() string {
	if d.For == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %d", d.For, d.First.UTC().Format(time.RFC3339), d.Postponed)
}

// Add adds a drain for a config that the controller postpones now. The parameter began is when the drain started.
func (d Drains) Add(config string, began time.Time) Drains {
	if d.For != config {
		d = Drains{For: config, First: began}
	}
	d.Postponed++
	return d
}

// PostponedText says how often the drain for the node's desired config was postponed, and when the first drain began;
// empty for none.
func (n *Node) PostponedText() string {
	switch {
	case n.Drains.For == "" || n.Drains.For != n.Config.Desired:
		return ""
	case n.Drains.Postponed == 1:
		return ", after a postponed drain at " + FormatTime(n.Drains.First)
	}
	return fmt.Sprintf(", after %d postponed drains, the first at %s", n.Drains.Postponed, FormatTime(n.Drains.First))
}
