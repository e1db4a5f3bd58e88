package main

import (
	"context"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/inspect"
)

// stopwatch finds out since when nodes are at their steps, where only their MachineConfigNodes know. Each is asked once for
// each step, and few at a time: thousands of nodes may be at work.
type stopwatch struct {
	c     client.Reader
	asked map[lap]time.Time
	known map[lap]*time.Time
}

// lap is one step of one update of one node.
type lap struct{ node, config, step string }

const (
	// mostAsked is how many MachineConfigNodes are read at a time; no screen shows more nodes.
	mostAsked = 24
	// askAgain is when one that had no answer is asked again.
	askAgain = 5 * time.Second
)

func newStopwatch(c client.Reader) *stopwatch {
	return &stopwatch{c: c, asked: map[lap]time.Time{}, known: map[lap]*time.Time{}}
}

// time fills in what is not known yet. What cannot be found out stays open.
func (w *stopwatch) time(ctx context.Context, rows []*inspect.NodeRow) {
	now, n := time.Now(), 0
	for _, r := range rows {
		l := lap{r.Name, r.Desired, r.Step}
		if !r.Untimed() {
			continue
		}
		if r.Since = w.known[l]; r.Since != nil || n == mostAsked || now.Sub(w.asked[l]) < askAgain {
			continue
		}
		n++
		w.asked[l] = now
		var of mcfgv1.MachineConfigNode
		if err := w.c.Get(ctx, client.ObjectKey{Name: r.Name}, &of); err == nil {
			r.Since = inspect.Began(&of, r.Step)
			w.known[l] = r.Since
		}
	}
}

// status fills in the times of a status.
func (w *stopwatch) status(ctx context.Context, s *inspect.Status) {
	rows := make([]*inspect.NodeRow, len(s.Nodes))
	for i := range s.Nodes {
		rows[i] = &s.Nodes[i]
	}
	w.time(ctx, rows)
}

// why fills in the times of an answer.
func (w *stopwatch) why(ctx context.Context, y *inspect.Why) {
	var rows []*inspect.NodeRow
	if y.Node != nil {
		rows = append(rows, y.Node)
	}
	for i := range y.Busy {
		rows = append(rows, &y.Busy[i].NodeRow)
	}
	w.time(ctx, rows)
}
