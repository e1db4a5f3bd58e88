package rollout

import (
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// fetchedAhead: the nodes that download the content of a config, or have it and wait for the assignment, in addition to
// those of the budget: servers of files do not get the requests of all nodes at once
const fetchedAhead = 20

// NextContent is the content of the config that the nodes of a pool are assigned: remote files and the OS image.
type NextContent struct {
	// Nodes download content of Target before they are assigned it.
	Needed bool
	// Nodes pull the images of their pool's PinnedImageSets before.
	Images bool
	// the config of the pool, and those of single nodes
	Target  v1alpha1.ConfigVersion
	Configs poolstate.NodeConfigs
	Now     time.Time
}

// own is without the revision of the secrets.
func (c NextContent) own(m *poolstate.Member) string {
	return c.Configs.Own(c.Target, m.Name).Config
}

func (c NextContent) state(m *poolstate.Member) poolstate.DownloadState { return m.Of(c.own(m), c.Now) }

// On reports whether a node in service may be assigned the target: it has its content and the images of its pool, or
// its daemon gets them only after the assignment. Daemons download ahead only while a config is in force without a
// problem.
func (c NextContent) On(m *poolstate.Member) bool { return c.downloaded(m) && c.pulled(m) }

func (c NextContent) downloaded(m *poolstate.Member) bool {
	return !c.Needed || !m.Ahead || !m.Done() || c.state(m) == poolstate.Downloaded
}

func (c NextContent) pulled(m *poolstate.Member) bool {
	return !c.Images || !m.Done() || m.HasImages()
}

// FailsOn reports whether a node in service waits for content or images that it cannot download now.
func (c NextContent) FailsOn(m *poolstate.Member) bool {
	return !c.downloaded(m) && c.state(m) == poolstate.DownloadFails || !c.pulled(m) && m.ImagesFail()
}

// keeps reports whether a node that is no candidate now stays told to download.
func (c NextContent) keeps(m *poolstate.Member) bool {
	return c.Needed && !m.Assigned && m.Next.Config == c.own(m)
}

// Late returns when the first download in progress no longer delays the downloads of other nodes; zero for never.
func (c NextContent) Late(candidates []*poolstate.Member) (at time.Time) {
	for _, m := range candidates {
		var late time.Time
		switch {
		case !c.downloaded(m) && c.state(m) == poolstate.Downloading:
			late = m.Late()
		case !c.pulled(m) && !m.ImagesFail() && m.PullsUntil().After(c.Now):
			late = m.PullsUntil()
		}
		if !late.IsZero() && (at.IsZero() || late.Before(at)) {
			at = late.Add(time.Second)
		}
	}
	return at
}

// Text returns why a node in service waits for content or images, or is empty.
func (c NextContent) Text(m *poolstate.Member) string {
	if c.downloaded(m) {
		return c.imagesText(m)
	}
	own := c.own(m)
	switch c.state(m) {
	case poolstate.DownloadFails:
		return "cannot download content of " + own + ", and stays in service until it can" +
			poolstate.Quote(m.Fetched.Problem, poolstate.MaxReason)
	case poolstate.Downloading, poolstate.DownloadingLong:
		return "downloads content of " + own + " before it is drained, since " + poolstate.FormatTime(m.Next.Since)
	case poolstate.NotToldToDownload, poolstate.Downloaded:
	}
	return "waits for its turn to download content of " + own
}

// imagesText returns why a node waits for images, or is empty.
func (c NextContent) imagesText(m *poolstate.Member) string {
	switch {
	case c.pulled(m):
		return ""
	case m.ImagesFail():
		return "cannot pull the images of its PinnedImageSets, and stays in service until it can" +
			poolstate.Quote(m.Pinned.Problem, poolstate.MaxReason)
	case m.Pin.Digest == m.Images && m.Pin.Since != nil:
		return "pulls the images of its PinnedImageSets before it is drained, since " +
			poolstate.FormatTime(m.Pin.Since.Time)
	}
	return "waits for its turn to pull the images of its PinnedImageSets"
}

// Waiting names the nodes that wait for content or images, those with a problem first. While a node downloads, the
// rollout makes progress, and it is empty.
func (c NextContent) Waiting(candidates []*poolstate.Member) string {
	var failing, others []*poolstate.Member
	for _, m := range candidates {
		switch {
		case c.On(m):
		case c.FailsOn(m):
			failing = append(failing, m)
		case !c.downloaded(m) && c.state(m) != poolstate.DownloadingLong, c.downloaded(m) && !c.pullsLong(m):
			return ""
		default:
			others = append(others, m)
		}
	}
	all := append(failing, others...)
	var texts []string
	for _, m := range all[:min(len(all), poolstate.MaxNamed)] {
		texts = append(texts, m.Name+" "+c.Text(m))
	}
	return poolstate.JoinFirst(texts, len(all))
}

// pullsLong reports whether a node has not reported since it was told to pull images a long time ago.
func (c NextContent) pullsLong(m *poolstate.Member) bool {
	until := m.PullsUntil()
	return !until.IsZero() && !until.After(c.Now)
}

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
