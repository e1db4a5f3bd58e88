package inspect

import (
	"cmp"
	"fmt"
	"strings"
)

// Changes are what is new since an earlier status, a line each: sources, pools, servers, and nodes whose step, configs or state
// changed. A nil status was never shown: then it is everything but the nodes that have nothing to say. Durations that run
// on are no change.
func (s Status) Changes(before *Status) []string {
	first := before == nil
	if first {
		before = &Status{}
	}
	var out []string
	out = append(out, news(before.sourceLines(), s.sourceLines(), "source/")...)
	out = append(out, news(before.poolLines(), s.poolLines(), "pool/")...)
	out = append(out, news(before.serverLines(), s.serverLines(), "server/")...)
	is := s.nodeLines()
	if first {
		for i := range s.Nodes {
			if n := &s.Nodes[i]; !n.InFlight() && n.Step != StepFailed {
				delete(is.text, n.Name)
			}
		}
	}
	return append(out, news(before.nodeLines(), is, "node/")...)
}

// told are lines by what they are about, in an order.
type told struct {
	names []string
	text  map[string]string
}

func newTold() told { return told{text: map[string]string{}} }

func (t *told) add(name, text string) {
	t.names = append(t.names, name)
	t.text[name] = text
}

// news are the lines that differ, and those that are gone.
func news(was, is told, kind string) []string {
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

func (s *Status) sourceLines() told {
	t := newTold()
	for _, r := range s.Sources {
		text := dash(shortRevision(r.Revision)) + " ready=" + r.Ready
		if r.Ready != "True" {
			text += ": " + briefly(r.Message)
		}
		t.add(r.Name, text)
	}
	return t
}

func (s *Status) poolLines() told {
	t := newTold()
	for _, r := range s.Pools {
		text := dash(ShortRendered(r.Target)) + " " + dash(commitLabel(r.API, cmp.Or(r.Revision, r.Unproven))) + " " + r.numbers() + ": " + brief(r.State)
		if r.Step != "" && !strings.Contains(text, r.Step) {
			text += "; " + r.Step
		}
		for _, boots := range s.Servers.said(r.Name) {
			text += "; " + boots
		}
		t.add(r.Name, text)
	}
	return t
}

func (s *Status) nodeLines() told {
	t := newTold()
	for _, r := range s.Nodes {
		text := cmp.Or(r.Step, "done")
		if r.Step == StepNext { // it is told in a moment
			text = StepWaiting
		}
		if r.Current != r.Desired {
			text += fmt.Sprintf(" %s → %s", dash(ShortRendered(r.Current)), dash(ShortRendered(r.Desired)))
		} else {
			text += " " + dash(ShortRendered(r.Current))
		}
		if r.Step == StepFailed || r.State == "Conflict" {
			text += ": " + brief(r.Reason)
		}
		t.add(r.Name, text)
	}
	return t
}
