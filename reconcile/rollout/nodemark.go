package rollout

import (
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// MarkedPool is a pool for which a decision about its configs is made.
type MarkedPool struct {
	// of the pool, and the custom pools for which they may have been admitted
	Nodes   poolstate.Members
	Customs []poolstate.Custom
	// of the config that the nodes are assigned, and how far they are with it
	Content NextContent
	// The decision writes the config of a node, and so no marks.
	Written func(*poolstate.Member) bool
	// no new taints and labels; with Stopped, nothing to download either
	Frozen, Stopped bool
	// The step only allows nodes of the canary's selector. Max is the budget of the pool.
	Canaries bool
	Max      int
}

// MarksFor returns the marks of the nodes without an assignment.
func MarksFor(p MarkedPool) (out poolstate.Marks) {
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
		// The decision writes to each node only once.
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
	for _, m := range p.Nodes.Candidates[poolstate.CandidateLabel] {
		if c := m.AdmittedPool(p.Customs); c != nil {
			out.Label = append(out.Label, poolstate.Label{Node: m.Name, Labels: c.Labels})
			continue
		}
		out.Label = append(out.Label, poolstate.Label{Node: m.Name, Attest: true})
	}
	return out
}

// announce returns the nodes that are told which config they get next, in the order of their names, and those for which
// that is no longer true. A node that cannot download does not delay others.
func announce(p MarkedPool) (out []poolstate.Announcement) {
	want := map[string]string{}
	if p.Content.Needed {
		want = tellToDownload(p)
	}
	for _, m := range p.Nodes.All {
		next, told := want[m.Name]
		switch {
		case p.Written(m) || m.Candidate == poolstate.CandidateLabel:
			// The decision writes to each node only once, and the write of an assignment also removes the announcement.
		case told && m.Next.Config != next:
			at := v1alpha1.NextConfig{Config: next, Since: p.Content.Now.Truncate(time.Second)}
			out = append(out, poolstate.Announcement{Node: m.Name, Next: at.String()})
		case !told && m.Next.Config != "" && !p.Content.keeps(m):
			out = append(out, poolstate.Announcement{Node: m.Name})
		}
	}
	return out
}

// tellToDownload returns the configs of the nodes that download now, by node, in the order of assignment. Those that
// already download keep their place.
func tellToDownload(p MarkedPool) map[string]string {
	want, left := map[string]string{}, max(0, p.Max)+fetchedAhead
	var waiting []*poolstate.Member
	for _, m := range p.Nodes.Candidates[poolstate.CandidateInService] {
		if p.Written(m) || !m.Ahead || !m.Done() {
			continue
		}
		switch p.Content.state(m) {
		case poolstate.NotToldToDownload:
			waiting = append(waiting, m)
			continue
		case poolstate.Downloading, poolstate.Downloaded:
			left--
		case poolstate.DownloadingLong, poolstate.DownloadFails:
		}
		want[m.Name] = p.Content.own(m)
	}
	if p.Canaries { // The nodes of the canary come first.
		slices.SortStableFunc(waiting, func(a, b *poolstate.Member) int {
			switch {
			case a.Canary == b.Canary:
				return 0
			case a.Canary:
				return -1
			}
			return 1
		})
	}
	for _, m := range waiting[:min(len(waiting), max(0, left))] {
		want[m.Name] = p.Content.own(m)
	}
	return want
}
