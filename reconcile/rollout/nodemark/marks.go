package nodemark

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/nodestate"
)

// Marks are the writes to nodes that change no config.
type Marks struct {
	// Announce has the nodes whose NextConfigAnnotation changes.
	Announce []Announcement
	// Label are the nodes that get labels, sorted by name.
	Label []Label
	// Taint and Untaint are the nodes that get or lose the UpdateInProgress taint, sorted by name. Nodes that are
	// assigned a config, and those of Announce, are in neither list.
	Taint, Untaint []string
	// DropImage are the nodes that lose the annotations of a stray image, sorted by name.
	DropImage []string
}

// Announcement tells one node which config it gets next, so that it downloads the content of the config.
type Announcement struct {
	// Node is the node to write. Next is the new value of NextConfigAnnotation; empty if the node has nothing to
	// download.
	Node, Next string
	// If Taint is true, the write also adds the UpdateInProgress taint. If Untaint is true, it removes the taint.
	Taint, Untaint bool
}

// Label puts a node into the custom pool for which the server admitted its machine.
type Label struct {
	// Node is the node to write.
	Node string
	// Labels are the labels to set. The same write sets CustomPoolLabelsAppliedAnnotation, so that the node gets the
	// labels only once.
	Labels map[string]string
	// Attest is true if the controller first reads the server's records and writes AttestedPoolAnnotation.
	Attest bool
}

// Pool is a pool for which a decision about its configs is made.
type Pool struct {
	// Nodes are the nodes of the pool, and Customs the custom pools for which they may have been admitted.
	Nodes   nodestate.Members
	Customs []nodestate.Custom
	// Content says how far the nodes are with the content of the config that they are assigned.
	Content Content
	// Written reports whether the decision writes the config of a node, so that it writes no marks to it.
	Written func(*nodestate.Member) bool
	// Frozen is true if nodes get no new taints and labels. If Stopped is true, nodes are also told nothing to
	// download.
	Frozen, Stopped bool
	// Canaries is true if the step only allows nodes that the canary's selector matches. Max is the budget of the pool.
	Canaries bool
	Max      int
}

// Of returns the marks of the nodes without an assignment.
func Of(p Pool) (out Marks) {
	if !p.Frozen && !p.Stopped {
		out.Announce = announce(p)
	}
	announced := map[string]int{}
	for i, a := range out.Announce {
		announced[a.Node] = i
	}
	for _, m := range p.Nodes.All {
		if m.Config.StrayImage() && !p.Written(m) {
			out.DropImage = append(out.DropImage, m.Name)
		}
		at, told := announced[m.Name]
		switch {
		case m.Assigned && m.Tainted && told:
			out.Announce[at].Untaint = true
		case m.Assigned && m.Tainted:
			out.Untaint = append(out.Untaint, m.Name)
		// The decision already writes to this node, and it writes to each node only once.
		case m.Assigned, m.Tainted, p.Frozen, p.Written(m), m.NeedsPoolCheck(p.Customs):
		case told:
			out.Announce[at].Taint = true
		default:
			out.Taint = append(out.Taint, m.Name)
		}
	}
	if p.Frozen {
		return out
	}
	for _, m := range p.Nodes.Candidates[nodestate.CandidateLabel] {
		if c := m.AdmittedPool(p.Customs); c != nil {
			out.Label = append(out.Label, Label{Node: m.Name, Labels: c.Labels})
			continue
		}
		out.Label = append(out.Label, Label{Node: m.Name, Attest: true})
	}
	return out
}

// announce returns the nodes that are told which config they get next, in the order of their names, and the nodes for
// which that is no longer true. A node that cannot download does not delay other nodes.
func announce(p Pool) (out []Announcement) {
	want := map[string]string{}
	if p.Content.Needed {
		want = tellToDownload(p)
	}
	for _, m := range p.Nodes.All {
		next, told := want[m.Name]
		switch {
		case p.Written(m) || m.Candidate == nodestate.CandidateLabel:
			// The decision writes to each node only once. The write of an assignment also removes the announcement.
		case told && m.Next.Config != next:
			at := v1alpha1.NextConfig{Config: next, Since: p.Content.Now.Truncate(time.Second)}
			out = append(out, Announcement{Node: m.Name, Next: at.String()})
		case !told && m.Next.Config != "" && !p.Content.keeps(m):
			out = append(out, Announcement{Node: m.Name})
		}
	}
	return out
}
