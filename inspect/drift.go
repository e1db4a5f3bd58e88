package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Drift is what the daemons of a cluster report: where nodes are not as their configs have them.
type Drift struct {
	// Rows by node, then in the order of the node's report.
	Rows []DriftRow `json:"drift"`
	// Nodes that were looked at, and those of them of which it is not known whether they drifted.
	Nodes   int           `json:"nodes"`
	Unknown []UnknownNode `json:"unknown,omitempty"`
	// Unmanaged are nodes that no pool selects. Those of which no daemon has reported do not count among Nodes.
	Unmanaged []string `json:"unmanaged,omitempty"`
	// Unlisted items by node: the Node had no room for them.
	Unlisted map[string]int `json:"unlisted,omitempty"`
	// Unread are nodes whose report cannot be read, with why.
	Unread map[string]string `json:"unread,omitempty"`
}

// UnknownNode is a node whose drift is not known, because its daemon or its kubelet does not report.
type UnknownNode struct {
	Node  string        `json:"node"`
	Cause rollout.Cause `json:"cause"`
	// Since is when it stopped reporting; absent where it never reported.
	Since *time.Time `json:"since,omitempty"`
}

// text says what is wrong.
func (u UnknownNode) text(now time.Time) string {
	age := ""
	if u.Since != nil {
		age = since(*u.Since, now)
	}
	switch u.Cause {
	case CauseNoDaemon:
		return "no machine-config-daemon has reported"
	case CauseSilent:
		return "its machine-config-daemon has been silent" + age
	}
	return "its kubelet has been silent" + age
}

// unknownNode tells of a node whether its daemon's report is of now; nil: it is.
func unknownNode(n *corev1.Node, daemons map[string]v1alpha1.DaemonReport, now time.Time) *UnknownNode {
	r := rollout.ReadNode(n)
	seen, silent := silentSince(daemons, &r, now)
	switch {
	case r.State == "":
		return &UnknownNode{Node: n.Name, Cause: CauseNoDaemon}
	case r.Health.Silence != "":
		return &UnknownNode{Node: n.Name, Cause: rollout.CauseNotReady, Since: known(r.Health.Since)}
	case silent:
		return &UnknownNode{Node: n.Name, Cause: CauseSilent, Since: known(seen)}
	}
	return nil
}

// DriftRow is one thing on one node.
type DriftRow struct {
	// Node that has it.
	Node string `json:"node"`
	// Config in force there.
	Config string `json:"config"`

	v1alpha1.DriftItem `json:",inline"`
}

// NewDrift reads the reports of nodes. Daemons are the heartbeats by node, as Cluster has them.
func NewDrift(nodes []corev1.Node, daemons map[string]v1alpha1.DaemonReport, now time.Time) Drift {
	d := Drift{Rows: []DriftRow{}, Nodes: len(nodes), Unlisted: map[string]int{}, Unread: map[string]string{}}
	for i := range nodes {
		if u := unknownNode(&nodes[i], daemons, now); u != nil {
			d.Unknown = append(d.Unknown, *u)
		}
		text := nodes[i].Annotations[v1alpha1.DriftAnnotation]
		if text == "" {
			continue
		}
		var report v1alpha1.Drift
		if err := json.Unmarshal([]byte(text), &report); err != nil {
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
	slices.SortFunc(d.Unknown, func(a, b UnknownNode) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortStableFunc(d.Rows, func(a, b DriftRow) int { return cmp.Compare(a.Node, b.Node) })
	return d
}

// ClusterDrift reads the reports of all nodes of a cluster, and tells those that no pool selects.
func ClusterDrift(c Cluster, now time.Time) Drift {
	d := NewDrift(c.Nodes, c.Daemons, now)
	d.Unmanaged = sortedKeys(newFleet(c, now).nobodys)
	d.Unknown = slices.DeleteFunc(d.Unknown, func(u UnknownNode) bool {
		return u.Cause == CauseNoDaemon && slices.Contains(d.Unmanaged, u.Node)
	})
	for i := range c.Nodes {
		if r := rollout.ReadNode(&c.Nodes[i]); r.State == "" && slices.Contains(d.Unmanaged, r.Name) {
			d.Nodes--
		}
	}
	return d
}

// Any tells whether anything differs anywhere, as far as can be read.
func (d Drift) Any() bool { return len(d.Rows)+len(d.Unlisted)+len(d.Unread) > 0 }

// Find is the row of a node's path, unit or account; the error names what there is.
func (d Drift) Find(node, name string) (DriftRow, error) {
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
	return DriftRow{}, fmt.Errorf("node/%s reports no drift of %s; it does of %s", node, name, strings.Join(names, ", "))
}

// Text prints the table, and what it leaves out.
func (d Drift) Text(now time.Time) string {
	if !d.Any() {
		return d.none(now)
	}
	t := Table{Head: []string{"NODE", "PATH", "KIND", "ACTION", "SINCE"}}
	for _, r := range d.Rows {
		t.Rows = append(t.Rows, []string{r.Node, r.Name, string(r.Kind), string(r.Action), Age(r.Since.Time, now)})
	}
	var b strings.Builder
	b.WriteString(t.String())
	for _, node := range sortedKeys(d.Unlisted) {
		fmt.Fprintf(&b, "%s: %d more; on the node: machine-config-daemon drift list\n", node, d.Unlisted[node])
	}
	for _, node := range sortedKeys(d.Unread) {
		fmt.Fprintf(&b, "%s: its report cannot be read: %s\n", node, d.Unread[node])
	}
	return b.String() + d.unknownText(now) + d.unmanagedText()
}

// unmanagedText names the nodes that no pool selects.
func (d Drift) unmanagedText() string {
	const most = 10
	if len(d.Unmanaged) == 0 {
		return ""
	}
	names := strings.Join(d.Unmanaged[:min(len(d.Unmanaged), most)], ", ")
	if more := len(d.Unmanaged) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("No pool selects %s (%s), so Bunsen does not manage %s.\n", count(len(d.Unmanaged), "node"), names, map[bool]string{true: "it", false: "them"}[len(d.Unmanaged) == 1])
}

// none says that no drift is reported, and of how many nodes that is known.
func (d Drift) none(now time.Time) string {
	switch known := d.Nodes - len(d.Unknown); {
	case d.Nodes == 0:
		return "Drift is not known: no node reports.\n" + d.unmanagedText()
	case len(d.Unknown) == 0:
		return fmt.Sprintf("No drift: %d nodes are as their configs have them.\n", d.Nodes) + d.unmanagedText()
	case known == 0:
		return "Drift is not known.\n" + d.unknownText(now) + d.unmanagedText()
	default:
		return fmt.Sprintf("No drift on %d of %d nodes.\n", known, d.Nodes) + d.unknownText(now) + d.unmanagedText()
	}
}

// unknownText names the nodes whose drift is not known.
func (d Drift) unknownText(now time.Time) string {
	const most = 10
	var b strings.Builder
	for i, u := range d.Unknown {
		if i == most {
			fmt.Fprintf(&b, "%d more nodes are not known: bunsen get nodes\n", len(d.Unknown)-most)
			break
		}
		fmt.Fprintf(&b, "%s is not known: %s\n", u.Node, u.text(now))
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Text prints one row as a block.
func (r DriftRow) Text(now time.Time) string {
	lines := [][2]string{
		{"Node", r.Node + "   " + ShortRendered(r.Config)},
		{"Path", r.Name},
		{"Differs", fmt.Sprintf("%s, since %s (%s)", r.Kind, r.Since.UTC().Format(time.RFC3339), Age(r.Since.Time, now))},
		{"Action", string(r.Action)},
		{"Why", r.Why},
		{"Expected", sideText(r.Expected, r.Secret)},
		{"Actual", sideText(r.Actual, r.Secret)},
	}
	if r.Modified != nil {
		lines = append(lines, [2]string{"Modified", r.Modified.UTC().Format(time.RFC3339)})
	}
	var b strings.Builder
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(&b, "%-10s %s\n", l[0]+":", l[1])
		}
	}
	return b.String()
}

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
