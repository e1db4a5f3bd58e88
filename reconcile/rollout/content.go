package rollout

import (
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
	Target  string
	Configs poolstate.NodeConfigs
	Now     time.Time
}

// own is without the revision of the secrets.
func (c NextContent) own(m *poolstate.Member) string {
	return v1alpha1.ConfigName(c.Configs.Own(c.Target, m.Name))
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
