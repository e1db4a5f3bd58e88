package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Request is what a node's daemon asks for. The zero value asks for nothing.
type Request struct {
	// Verb is v1alpha1.DrainVerb or v1alpha1.UncordonVerb; empty asks for nothing.
	Verb string
	// Config is the rendered config that the daemon asks for.
	Config string
}

// String is the request as the annotation spells it; empty for the zero value.
func (r Request) String() string {
	if r.Verb == "" {
		return ""
	}
	return r.Verb + "-" + r.Config
}

// Parse reads the annotations desiredDrain and lastAppliedDrain. Nothing asked, or what is asked is done: the zero
// Request. An error says that the daemon speaks another protocol.
func Parse(desired, lastApplied string) (Request, error) {
	if desired == "" || desired == lastApplied {
		return Request{}, nil
	}
	verb, config, ok := strings.Cut(desired, "-")
	if !ok || config == "" || verb != v1alpha1.DrainVerb && verb != v1alpha1.UncordonVerb {
		return Request{}, fmt.Errorf("reading annotation %s: %q is neither %s-<config> nor %s-<config>; the machine-config-daemon of this node is of another version",
			v1alpha1.DesiredDrainAnnotation, desired, v1alpha1.DrainVerb, v1alpha1.UncordonVerb)
	}
	return Request{Verb: verb, Config: config}, nil
}

// Node is what a drain needs to know of a corev1.Node; ReadNode makes it.
type Node struct {
	// Name of the node.
	Name string
	// Request is what is asked for and not done; the zero value for nothing.
	Request Request
	// Cordoned says whether pods may be scheduled there, and who forbade it.
	Cordoned Cordoned
	// Started is when the drain under way began; zero before it did.
	Started time.Time
	// Status is the line of text that was written last, and Last the report.
	Status string
	Last   v1alpha1.DrainReport
	// NotReadySince is since when the node is not Ready; zero while it is.
	NotReadySince time.Time
	// CalledOff: the daemon asks again for the open node that it had before a drain which never came to its end, as a
	// revert to the config in force does. Nothing is left to acknowledge then, but the drain's cordon is still there.
	CalledOff bool
}

// ReadNode reads a node. The error is Parse's; the Node is filled apart from its Request then.
func ReadNode(n *corev1.Node) (Node, error) {
	a := n.Annotations
	node := Node{
		Name:     n.Name,
		Cordoned: Cordoned{Unschedulable: n.Spec.Unschedulable, For: a[v1alpha1.CordonedAnnotation]},
		Status:   a[v1alpha1.DrainStatusAnnotation],
	}
	asked := a[v1alpha1.DesiredDrainAnnotation]
	node.CalledOff = strings.HasPrefix(asked, v1alpha1.UncordonVerb+"-") && asked == a[v1alpha1.LastAppliedDrainAnnotation]
	if t, err := time.Parse(time.RFC3339, a[v1alpha1.DrainStartedAnnotation]); err == nil {
		node.Started = t
	}
	// A report that cannot be read is one that was never written: the next one takes its place.
	node.Last, _ = v1alpha1.ParseDrainReport(a[v1alpha1.DrainReportAnnotation])
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			node.NotReadySince = c.LastTransitionTime.Time
		}
	}
	request, err := Parse(a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.LastAppliedDrainAnnotation])
	if err != nil {
		return node, fmt.Errorf("node %s: %w", n.Name, err)
	}
	node.Request = request
	return node, nil
}

// Rest is what a node needs while nothing is asked of it: our cordon lifted where a drain was called off, else a stale
// mark removed.
func (n Node) Rest() Change {
	if n.CalledOff {
		return Uncordon(n.Cordoned)
	}
	return Tidy(n.Cordoned)
}

// Acknowledge gives the value of lastAppliedDrain once a request is done, and whether it is. A drain is done when its
// pods are gone and the node, read again afterwards, is still cordoned; an uncordon when Uncordon has nothing to change.
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
