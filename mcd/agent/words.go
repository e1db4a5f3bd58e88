package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// How much of a commit is told.
const (
	shortHash     = 10
	longestReason = 2000 // what the protocol allows in the reason annotation
	longestEnd    = 500  // how much of that is its end, which says what to do
)

// about is the config with who asked for it: `rendered-x (commit 1f2e3d4c5b "time: two pools" by Alice)`, or the objects that users
// changed through the API. Where the controller did not say, it is the commit for which the config was first made; where nothing says
// that either, the name alone.
func (t task) about() string {
	a := t.Config.Annotations
	asked := t.Asked
	if asked.Revision == "" && len(asked.API) == 0 {
		if asked = v1alpha1.ParseConfigRequest(a[v1alpha1.RequestAnnotation], t.Config.Name); len(asked.API) == 0 {
			asked = v1alpha1.Requester{Revision: a[v1alpha1.RevisionAnnotation], Subject: a[v1alpha1.CommitSubjectAnnotation], Author: a[v1alpha1.CommitAuthorAnnotation]}
		}
	}
	if commitText(v1alpha1.CommitRef{Revision: asked.Revision}) == "" && len(asked.API) == 0 {
		return t.Config.Name
	}
	for _, list := range []*[]v1alpha1.APIChange{&asked.API, &asked.After} {
		*list = slices.Clone(*list)
		for i := range *list { // a reason of a node is a line, and the pool's screen has the field manager
			c := &(*list)[i]
			c.Kind, c.Name, c.Manager = protocol.OneLine(c.Kind), protocol.OneLine(c.Name), ""
		}
	}
	return t.Config.Name + " (" + asked.Text(commitText) + ")"
}

// commitText names a commit on one line: `commit 1f2e3d4c5b "time: two pools" by Alice`; empty where its hash is not known.
func commitText(c v1alpha1.CommitRef) string {
	_, hash, _ := strings.Cut(c.Revision, ":")
	if hash = protocol.OneLine(hash); hash == "" {
		return ""
	}
	text := "commit " + hash[:min(len(hash), shortHash)]
	if subject := protocol.OneLine(c.Subject); subject != "" {
		text += " " + `"` + subject + `"`
	}
	author, _, _ := strings.Cut(c.Author, "<")
	if author = protocol.OneLine(author); author != "" {
		text += " by " + author
	}
	return text
}

// fit makes a reason be what the cluster takes: text, not too long. What is too much is taken out of the middle.
func fit(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD") // as the cluster would store it
	if len(reason) > longestReason {
		const middle = " … "
		head, tail := reason[:longestReason-longestEnd-len(middle)], reason[len(reason)-longestEnd:]
		reason = strings.ToValidUTF8(head, "") + middle + strings.ToValidUTF8(tail, "")
	}
	return reason
}

// before names what a machine goes back to from a config.
func before(from, to string) string {
	if from == to { // a forced update, or one that added what was withheld
		return to + " as it was before"
	}
	return cmp.Or(from, "its first state")
}

// look says where to look after a step failed.
func look(s *host.Step) string {
	switch {
	case s == nil:
		return "see the daemon's log"
	case s.Verb == host.Reload, s.Verb == host.Restart, s.Verb == host.Enable, s.Verb == host.Disable:
		return fmt.Sprintf("see journalctl -u %s and systemctl cat %s on the node", s.Target, s.Target)
	case s.Verb == host.DaemonReload:
		return "see journalctl -b _PID=1 on the node"
	case s.Verb == host.Reboot:
		return "see systemctl list-jobs and systemd-inhibit on the node"
	case s.IsPath():
		return fmt.Sprintf("see ls -ld %s, df and mount on the node", s.Target)
	case s.Verb == host.SetUser, s.Verb == host.DropUser, s.Verb == host.SetGroup, s.Verb == host.DropGroup:
		return fmt.Sprintf("see getent passwd, getent group and journalctl for %s on the node", s.Target)
	}
	return "see rpm-ostree status or bootc status, and journalctl -u rpm-ostreed, on the node"
}

// inspect says where to look after units were not well.
func inspect(units []string) string {
	if len(units) == 0 {
		return "see journalctl -b -1 on the node"
	}
	return "see journalctl -u " + strings.Join(units, " -u ") + " on the node"
}

// onceMore says how a config that was rejected is tried again.
const onceMore = "it is not tried again until another config is desired: fix or revert the commit; or ask for it with bunsen retry, or touch " + host.ForcePath + " on the node, to try it once more"
