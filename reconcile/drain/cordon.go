package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Cordoned says whether a node is cordoned, and whether Bunsen cordoned it.
type Cordoned struct {
	// The node is cordoned.
	Unschedulable bool
	// the config that Bunsen cordoned the node for, of the annotation bunsen.dev/cordoned-for
	For string
	// Somebody removed Bunsen's cordon and cordoned the node again. The cordon is then that of an administrator, and
	// For is outdated.
	Replaced bool
}

// Change is a change of a node's cordon, for one patch.
type Change struct {
	// false if the node needs no change, and To is the present state
	Needed bool
	// an empty For removes the annotation
	To Cordoned
}

// Cordon returns the cordon that a drain for a config needs. On a node that an administrator cordoned, it does not add
// Bunsen's annotation, so that Uncordon leaves that cordon. A node that a user uncordoned during a drain is cordoned
// again with the annotation.
func Cordon(c Cordoned, config string) Change {
	switch {
	case c.Replaced:
		return change(c, Cordoned{Unschedulable: true})
	case c.Unschedulable && c.For == "":
		return Change{To: c}
	}
	return change(c, Cordoned{Unschedulable: true, For: config})
}

// Uncordon removes only Bunsen's cordon. If an administrator cordons a node that Bunsen has cordoned, the two cannot be
// distinguished, unless somebody uncordoned it in between.
func Uncordon(c Cordoned) Change {
	switch {
	case c.Replaced:
		return change(c, Cordoned{Unschedulable: true})
	case c.For == "":
		return Change{To: c}
	}
	return change(c, Cordoned{})
}

// Tidy removes Bunsen's annotation if a user uncordoned the node after its drain was acknowledged: otherwise, the next
// cordon by an administrator would look like Bunsen's. Call it only if no drain is requested.
func Tidy(c Cordoned) Change {
	if c.Unschedulable && !c.Replaced {
		return Change{To: c}
	}
	return change(c, Cordoned{Unschedulable: c.Unschedulable})
}

func change(from, to Cordoned) Change { return Change{Needed: from != to, To: to} }

// Set writes a cordon to a node. While Bunsen's is there, autoscalers do not remove the node: it is empty on purpose,
// or it boots. An annotation that somebody else set or removed stays so.
func (c Cordoned) Set(n *corev1.Node) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	a, own := n.Annotations, v1alpha1.ScaleDownAnnotations()
	n.Spec.Unschedulable = c.Unschedulable
	marked, wasMarked := a[v1alpha1.ScaleDownAnnotation]
	switch {
	case c.For == "":
		for _, key := range strings.Fields(marked) {
			if slices.Contains(own, key) && a[key] == "true" {
				delete(a, key)
			}
		}
		delete(a, v1alpha1.CordonedAnnotation)
		delete(a, v1alpha1.ScaleDownAnnotation)
		return
	case !wasMarked:
		own = slices.DeleteFunc(own, func(key string) bool { _, set := a[key]; return set })
		for _, key := range own {
			a[key] = "true"
		}
		a[v1alpha1.ScaleDownAnnotation] = strings.Join(own, " ")
	}
	a[v1alpha1.CordonedAnnotation] = c.For
}

// Request is a request of a node's daemon.
type Request = v1alpha1.DrainRequest

// Node has the data of a corev1.Node that a drain needs. The function ReadNode returns a Node.
type Node struct {
	Name string
	// the pending one; zero for none
	Request  Request
	Cordoned Cordoned
	// of the current drain; zero for none
	Started time.Time
	// the last written status line and report
	Status string
	Last   v1alpha1.DrainReport
	// zero while the node is Ready
	NotReadySince time.Time
	// The daemon cancelled a drain before its end, for example because of a revert to the config in force. It then
	// requests the same uncordon that was acknowledged before the drain, so no new acknowledgement is needed, but
	// Bunsen's cordon still exists.
	CalledOff bool
	// acknowledged, and the daemon's last request; otherwise zero
	Drained Request
}

// CordonOf reads the cordon of a node.
func CordonOf(n *corev1.Node) Cordoned {
	return Cordoned{
		Unschedulable: n.Spec.Unschedulable, For: n.Annotations[v1alpha1.CordonedAnnotation],
		Replaced: n.Spec.Unschedulable && v1alpha1.IsCordonReplaced(n),
	}
}

// ReadNode reads a node. The error is about the request, and the Node is then without its Request.
func ReadNode(n *corev1.Node) (Node, error) {
	a := n.Annotations
	node := Node{
		Name:     n.Name,
		Cordoned: CordonOf(n),
		Status:   a[v1alpha1.DrainStatusAnnotation],
	}
	asked := a[v1alpha1.DesiredDrainAnnotation]
	node.CalledOff = strings.HasPrefix(asked, v1alpha1.UncordonVerb+"-") &&
		asked == a[v1alpha1.LastAppliedDrainAnnotation]
	if t, err := time.Parse(time.RFC3339, a[v1alpha1.DrainStartedAnnotation]); err == nil {
		node.Started = t
	}
	// The next report replaces one that cannot be parsed.
	node.Last, _ = v1alpha1.ParseDrainReport(a[v1alpha1.DrainReportAnnotation])
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			node.NotReadySince = c.LastTransitionTime.Time
		}
	}
	applied, ok := v1alpha1.ParseDrainRequest(a[v1alpha1.LastAppliedDrainAnnotation])
	if ok && applied.Verb == v1alpha1.DrainVerb && applied.String() == asked {
		node.Drained = applied
	}
	request, err := v1alpha1.PendingDrain(asked, a[v1alpha1.LastAppliedDrainAnnotation])
	if err != nil {
		return node, fmt.Errorf("node %s: %w", n.Name, err)
	}
	node.Request = request
	return node, nil
}

// Rest returns the change of a node without a request: it removes Bunsen's cordon after a cancelled drain, or else an
// outdated annotation.
func (n Node) Rest() Change {
	if n.CalledOff {
		return Uncordon(n.Cordoned)
	}
	return Tidy(n.Cordoned)
}

// Withdraw returns the value of lastAppliedDrain for a node that somebody uncordoned after its drain was acknowledged,
// also if it is cordoned again by now; false for another node. New pods may run there, so the daemon must request
// another drain.
func (n Node) Withdraw() (lastApplied string, undone bool) {
	if n.Drained.Verb == "" || n.Cordoned.Unschedulable && !n.Cordoned.Replaced {
		return "", false
	}
	return n.Drained.Undone().String(), true
}

// Acknowledge returns the value of lastAppliedDrain if a request is done: a drain if the pods are gone, and another
// read of the Node shows that it is still cordoned; an uncordon if Uncordon needs no change.
func Acknowledge(r Request, c Cordoned, drained bool) (lastApplied string, done bool) {
	switch r.Verb {
	case v1alpha1.DrainVerb:
		done = drained && c.Unschedulable
	case v1alpha1.UncordonVerb:
		done = !Uncordon(c).Needed
	}
	if !done {
		return "", false
	}
	return r.String(), true
}
