package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// DriftReport is the drift that the daemons of a cluster report.
type DriftReport struct {
	// Rows are sorted by node, then as in the node's report.
	Rows []DriftRow `json:"drift"`
	// Nodes is how many were checked, also those whose drift is Unknown.
	Nodes   int           `json:"nodes"`
	Unknown []UnknownNode `json:"unknown,omitempty"`
	// Unmanaged are in no pool. Nodes counts those from which a daemon has reported.
	Unmanaged []string `json:"unmanaged,omitempty"`
	// Unlisted is by node how many items did not fit into its report.
	Unlisted map[string]int `json:"unlisted,omitempty"`
	// Unread is by node why its report cannot be read.
	Unread map[string]string `json:"unread,omitempty"`
}

// UnknownNode is a node whose drift is unknown, because its daemon or its kubelet does not report.
type UnknownNode struct {
	Node  string          `json:"node"`
	Cause poolstate.Cause `json:"cause"`
	// Since is when the daemon or the kubelet stopped reporting; nil if it never did report.
	Since *time.Time `json:"since,omitempty"`
}

func (u UnknownNode) text(now time.Time) string {
	age := ""
	if u.Since != nil {
		age = fleet.Since(*u.Since, now)
	}
	switch u.Cause {
	case fleet.CauseNoDaemon:
		return "no machine-config-daemon has reported"
	case fleet.CauseSilent:
		return "its machine-config-daemon has been silent" + age
	}
	return "its kubelet has been silent" + age
}

// unknownNode returns why the drift of a node is unknown; nil if its daemon's report is current.
func unknownNode(n *corev1.Node, daemons map[string]v1alpha1.DaemonReport, now time.Time) *UnknownNode {
	r := poolstate.ReadNode(n)
	seen, silent := fleet.SilentSince(daemons, &r, now)
	switch {
	case r.State == "":
		return &UnknownNode{Node: n.Name, Cause: fleet.CauseNoDaemon}
	case r.Health.Silence != "":
		return &UnknownNode{Node: n.Name, Cause: poolstate.CauseNotReady, Since: fleet.TimeOrNil(r.Health.Since)}
	case silent:
		return &UnknownNode{Node: n.Name, Cause: fleet.CauseSilent, Since: fleet.TimeOrNil(seen)}
	}
	return nil
}

// DriftRow is one difference on one node.
type DriftRow struct {
	Node   string `json:"node"`
	Config string `json:"config"`

	v1alpha1.DriftItem `json:",inline"`
}

// NewDriftReport reads the reports of nodes, with the heartbeats that fleet.Cluster has.
func NewDriftReport(nodes []corev1.Node, daemons map[string]v1alpha1.DaemonReport, now time.Time) DriftReport {
	d := DriftReport{Rows: []DriftRow{}, Nodes: len(nodes), Unlisted: map[string]int{}, Unread: map[string]string{}}
	for i := range nodes {
		if u := unknownNode(&nodes[i], daemons, now); u != nil {
			d.Unknown = append(d.Unknown, *u)
		}
		report, err := v1alpha1.ParseDrift(nodes[i].Annotations[v1alpha1.DriftAnnotation])
		if err != nil {
			d.Unread[nodes[i].Name] = err.Error()
			continue
		}
		for _, it := range report.Items {
			d.Rows = append(d.Rows, DriftRow{Node: nodes[i].Name, Config: report.Config, DriftItem: it})
		}
		if report.More > 0 {
			d.Unlisted[nodes[i].Name] = report.More
		}
	}
	slices.SortFunc(d.Unknown, func(a, b UnknownNode) int { return fleet.CompareNames(a.Node, b.Node) })
	slices.SortStableFunc(d.Rows, func(a, b DriftRow) int { return fleet.CompareNames(a.Node, b.Node) })
	return d
}

// NewClusterDrift reads the reports of all nodes of a cluster, and lists the nodes that no pool selects.
func NewClusterDrift(c fleet.Cluster, now time.Time) DriftReport {
	d := NewDriftReport(c.Nodes, c.Daemons, now)
	d.Unmanaged = slices.Sorted(maps.Keys(fleet.New(c, now).Unmanaged))
	d.Unknown = slices.DeleteFunc(d.Unknown, func(u UnknownNode) bool {
		return u.Cause == fleet.CauseNoDaemon && slices.Contains(d.Unmanaged, u.Node)
	})
	for i := range c.Nodes {
		if r := poolstate.ReadNode(&c.Nodes[i]); r.State == "" && slices.Contains(d.Unmanaged, r.Name) {
			d.Nodes--
		}
	}
	return d
}

// Any reports whether a node has drift, as far as the reports can be read.
func (d DriftReport) Any() bool { return len(d.Rows)+len(d.Unlisted)+len(d.Unread) > 0 }

// Find returns the row of a node's path, unit or account. The error lists the names of the node's rows.
func (d DriftReport) Find(node, name string) (DriftRow, error) {
	var names []string
	for _, r := range d.Rows {
		if r.Node == node && r.Name == name {
			return r, nil
		}
		if r.Node == node {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return DriftRow{}, fmt.Errorf("node/%s reports no drift", node)
	}
	return DriftRow{}, fmt.Errorf("node/%s reports no drift of %s; it does of %s", node, name,
		strings.Join(names, ", "))
}

// Text prints the table, and the nodes that are not in it.
func (d DriftReport) Text(now time.Time) string {
	if !d.Any() {
		return d.none(now)
	}
	t := terminal.Table{Head: []string{"NODE", "PATH", "KIND", "ACTION", "SINCE"}}
	for _, r := range d.Rows {
		t.Rows = append(t.Rows, []string{
			r.Node, r.Name, string(r.Kind), string(r.Action),
			terminal.Age(r.Since.Time, now),
		})
	}
	var b terminal.Labels
	b.Text(t)
	for _, node := range slices.Sorted(maps.Keys(d.Unlisted)) {
		b.Line("%s: %d more; on the node: machine-config-daemon drift list", node, d.Unlisted[node])
	}
	for _, node := range slices.Sorted(maps.Keys(d.Unread)) {
		b.Line("%s: its report cannot be read: %s", node, d.Unread[node])
	}
	return b.String() + d.unknownText(now) + d.unmanagedText()
}

func (d DriftReport) unmanagedText() string {
	const most = 10
	if len(d.Unmanaged) == 0 {
		return ""
	}
	return fmt.Sprintf("No pool selects %s (%s), so Bunsen does not manage %s.\n",
		fleet.Count(len(d.Unmanaged), "node"), fleet.Names(d.Unmanaged, most),
		map[bool]string{true: "it", false: "them"}[len(d.Unmanaged) == 1])
}

// none says that no drift is reported, and for how many nodes that is known.
func (d DriftReport) none(now time.Time) string {
	switch known := d.Nodes - len(d.Unknown); {
	case d.Nodes == 0:
		return "Drift is not known: no node reports.\n" + d.unmanagedText()
	case len(d.Unknown) == 0 && d.Nodes == 1:
		return "No drift: 1 node is as its config has it.\n" + d.unmanagedText()
	case len(d.Unknown) == 0:
		return fmt.Sprintf("No drift: %d nodes are as their configs have them.\n", d.Nodes) + d.unmanagedText()
	case known == 0:
		return "Drift is not known.\n" + d.unknownText(now) + d.unmanagedText()
	default:
		return fmt.Sprintf("No drift on %d of %d nodes.\n", known, d.Nodes) + d.unknownText(now) + d.unmanagedText()
	}
}

func (d DriftReport) unknownText(now time.Time) string {
	const most = 10
	var b terminal.Labels
	for i, u := range d.Unknown {
		if i == most {
			b.Line("%d more nodes are not known: bunsen get nodes", len(d.Unknown)-most)
			break
		}
		b.Line("%s is not known: %s", u.Node, u.text(now))
	}
	return b.String()
}

// Text prints one row as a block.
func (r DriftRow) Text(now time.Time) string {
	var b terminal.Labels
	b.Add("Node", r.Node+"   "+fleet.ShortRendered(r.Config))
	b.Add("Path", r.Name)
	b.Add("Differs", fmt.Sprintf("%s, since %s (%s)", r.Kind, r.Since.UTC().Format(time.RFC3339),
		terminal.Age(r.Since.Time, now)))
	b.Add("Action", string(r.Action))
	b.Add("Why", r.Why)
	b.Add("Expected", r.ExpectedText())
	b.Add("Actual", r.ActualText())
	if r.Modified != nil {
		b.Add("Modified", r.Modified.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// ExpectedText says what the config requires, without contents; empty if the report does not have it.
func (r DriftRow) ExpectedText() string { return sideText(r.Expected, r.Secret) }

// ActualText returns a text about the state on the node, without contents; empty if the report does not have it.
func (r DriftRow) ActualText() string { return sideText(r.Actual, r.Secret) }

func sideText(e *v1alpha1.DriftEntry, secret bool) string {
	if e == nil {
		return ""
	}
	parts := []string{e.Type, e.Mode, e.Owner}
	switch {
	case e.Type == "":
		return "nothing"
	case e.Target != "":
		parts = append(parts, "-> "+e.Target)
	case e.Digest != "":
		parts = append(parts, "sha256 "+e.Digest)
	case secret && e.Type == "file":
		parts = append(parts, "(contents hidden: they are secret)")
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}
