package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Cordoned says whether a node is cordoned, and whether Bunsen cordoned it.
type Cordoned struct {
	// Unschedulable is true on a cordoned node.
	Unschedulable bool
	// For is the value of the annotation bunsen.dev/cordoned-for: the config that Bunsen cordoned the node for.
	For string
	// Replaced is true if somebody removed Bunsen's cordon and cordoned the node again. The cordon is then that of an
	// administrator, and For is outdated.
	Replaced bool
}

// Change is a change of a node's cordon, for one patch.
type Change struct {
	// Needed is false if the node needs no change. If Needed is false, To is the present state.
	Needed bool
	// To is the wanted state of the node. An empty For removes the annotation.
	To Cordoned
}

// Cordon returns the cordon that a drain for a config needs. If an administrator cordoned the node, Cordon does not
// add Bunsen's annotation, so that Uncordon does not remove that cordon. If a user uncordoned the node during a drain,
// Cordon cordons it again with the annotation.
func Cordon(c Cordoned, config string) Change {
	switch {
	case c.Replaced:
		return change(c, Cordoned{Unschedulable: true})
	case c.Unschedulable && c.For == "":
		return Change{To: c}
	}
	return change(c, Cordoned{Unschedulable: true, For: config})
}

// Uncordon removes only Bunsen's cordon. If an administrator cordons a node that Bunsen has cordoned, the two cordons
// cannot be distinguished, unless somebody uncordoned the node in between.
func Uncordon(c Cordoned) Change {
	switch {
	case c.Replaced:
		return change(c, Cordoned{Unschedulable: true})
	case c.For == "":
		return Change{To: c}
	}
	return change(c, Cordoned{})
}

// Tidy removes Bunsen's annotation if a user uncordoned the node after its drain was acknowledged. If the annotation
// remained, the next cordon by an administrator would look like a cordon by Bunsen. Call Tidy only if no drain is
// requested.
func Tidy(c Cordoned) Change {
	if c.Unschedulable && !c.Replaced {
		return Change{To: c}
	}
	return change(c, Cordoned{Unschedulable: c.Unschedulable})
}

func change(from, to Cordoned) Change { return Change{Needed: from != to, To: to} }

// Set writes a cordon to a node. While Bunsen's cordon is there, autoscalers do not remove the node: it is empty on
// purpose, or it boots. Set leaves an annotation alone that somebody else set or removed.
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
