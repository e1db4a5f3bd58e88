package inspect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// Changes returns the differences from an earlier status, one line each: sources, pools, servers, and nodes whose step,
// configs or state have changed. Without an earlier status, it returns all lines, except those of nodes that are done.
// A growing duration is no change.
func (s Status) Changes(before *Status) []string {
	first := before == nil
	if first {
		before = &Status{}
	}
	var out []string
	out = append(out, changedLines(before.sourceLines(), s.sourceLines(), "source/")...)
	out = append(out, changedLines(before.poolLines(), s.poolLines(), "pool/")...)
	out = append(out, changedLines(before.serverLines(), s.serverLines(), "server/")...)
	is := s.nodeLines()
	if first {
		for i := range s.Nodes {
			if n := &s.Nodes[i]; !n.InFlight() && n.Step != fleet.StepFailed {
				delete(is.text, n.Name)
			}
		}
	}
	return append(out, changedLines(before.nodeLines(), is, "node/")...)
}

// changeLines are in a fixed order, each about one object.
type changeLines struct {
	names []string
	text  map[string]string
}

func newChangeLines() changeLines { return changeLines{text: map[string]string{}} }

func (t *changeLines) add(name, text string) {
	t.names = append(t.names, name)
	t.text[name] = text
}

// changedLines also names the objects that no longer exist.
func changedLines(was, is changeLines, kind string) []string {
	var out []string
	for _, name := range is.names {
		if text, ok := is.text[name]; ok && was.text[name] != text {
			out = append(out, kind+name+" "+text)
		}
	}
	for _, name := range was.names {
		if _, there := is.text[name]; !there {
			out = append(out, kind+name+" is gone")
		}
	}
	return out
}

func (s *Status) sourceLines() changeLines {
	t := newChangeLines()
	for _, r := range s.Sources {
		text := terminal.Dash(fleet.ShortRevision(r.Revision)) + " ready=" + r.Ready
		if r.Ready != "True" {
			text += ": " + r.brief
		}
		t.add(r.Name, text)
	}
	return t
}

func (s *Status) poolLines() changeLines {
	t := newChangeLines()
	for _, r := range s.Pools {
		text := terminal.Dash(fleet.ShortRendered(r.Target)) + " " +
			terminal.Dash(fleet.CommitLabel(r.API, cmp.Or(r.Revision, r.Unproven))) + " " + r.numbers() + ": " +
			fleet.Brief(r.State)
		if r.Step != "" && !strings.Contains(text, r.Step) {
			text += "; " + r.Step
		}
		for _, boots := range s.Servers.BootTexts(r.Name) {
			text += "; " + boots
		}
		t.add(r.Name, text)
	}
	return t
}

func (s *Status) nodeLines() changeLines {
	t := newChangeLines()
	for _, r := range s.Nodes {
		text := cmp.Or(r.Step, "done")
		if r.Step == fleet.StepNext { // The controller assigns the config at once, so this step is no news.
			text = fleet.StepWaiting
		}
		if r.Current != r.Desired {
			text += fmt.Sprintf(" %s → %s", terminal.Dash(fleet.ShortRendered(r.Current.String())),
				terminal.Dash(fleet.ShortRendered(r.Desired.String())))
		} else {
			text += " " + terminal.Dash(fleet.ShortRendered(r.Current.String()))
		}
		if r.Step == fleet.StepFailed || r.State == "Conflict" {
			text += ": " + fleet.Brief(r.Reason)
		}
		t.add(r.Name, text)
	}
	return t
}

func (s *Status) serverLines() changeLines {
	t := newChangeLines()
	if s.Servers == nil {
		return t
	}
	for _, r := range s.Servers.Alive() {
		text := "up"
		if r.Report != nil {
			text += ", " + r.Access() + ", secrets " + r.Secrets()
		}
		t.add(r.Name, text)
	}
	return t
}
