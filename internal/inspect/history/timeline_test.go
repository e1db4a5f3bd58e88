package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

var began = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// after returns a time some minutes after the begin of the rollout.
func after(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }

// rolling is a pool whose rollout to config new began, with nodes `name current desired [failure]`.
func rolling(record string, nodes ...string) *fleet.Pool {
	p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
		Name:        "worker",
		Annotations: map[string]string{v1alpha1.RolloutAnnotation: record},
	}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	p.Spec.Configuration.Name = "new"
	c := fleet.Cluster{Pools: []mcfgv1.MachineConfigPool{p}}
	for _, text := range nodes {
		f := append(strings.Fields(text), "")
		state := v1alpha1.StateDone
		if f[3] != "" {
			state = v1alpha1.StateDegraded
		}
		c.Nodes = append(c.Nodes,
			corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: f[0], Labels: map[string]string{"role": "worker"},
				Annotations: map[string]string{
					v1alpha1.CurrentConfigAnnotation: f[1], v1alpha1.DesiredConfigAnnotation: f[2],
					v1alpha1.StateAnnotation: state, v1alpha1.FailureAnnotation: f[3],
				},
			}})
	}
	return fleet.New(c, after(60)).PoolByName["worker"]
}

// machine returns a report with conditions `type status minutes`.
func machine(name string, created time.Time, conditions ...string) mcfgv1.MachineConfigNode {
	m := mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
	for _, text := range conditions {
		var kind, status string
		var minutes int
		if _, err := fmt.Sscan(text, &kind, &status, &minutes); err != nil {
			panic(err)
		}
		m.Status.Conditions = append(m.Status.Conditions,
			metav1.Condition{
				Type: kind, Status: metav1.ConditionStatus(status),
				LastTransitionTime: metav1.NewTime(after(minutes)),
			})
	}
	return m
}

// event returns an event `node reason minutes`.
func event(text string) corev1.Event {
	var name, reason string
	var minutes int
	if _, err := fmt.Sscan(text, &name, &reason, &minutes); err != nil {
		panic(err)
	}
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: name}, Reason: reason,
		LastTimestamp: metav1.NewTime(after(minutes)), Source: corev1.EventSource{Host: name},
	}
}

// TestAnEventOfAnotherNodeIsNoStep: Kubernetes lets a node create events about other nodes.
func TestAnEventOfAnotherNodeIsNoStep(t *testing.T) {
	forged := event("n1 Reboot 3")
	forged.Source.Host = "n2"
	pool := rolling(`{"config":"new","began":"2026-01-02T12:00:00Z"}`, "n1 old new", "n2 old old")
	if all := history.NewTimeline(pool, nil, []corev1.Event{forged}).Nodes; len(all) > 0 && all[0].Reboot != nil {
		t.Errorf("a reboot that another node told of is shown: %+v", all)
	}
}

// lines prints a timeline, with the minutes of each step.
func lines(t history.Timeline) string {
	var b strings.Builder
	for _, n := range t.Nodes {
		b.WriteString(n.Name)
		for _, at := range []struct {
			word string
			at   *time.Time
		}{{"began", n.Began}, {"drain", n.Drain}, {"reboot", n.Reboot}, {"done", n.Done}, {"failed", n.Failed}} {
			if at.at != nil {
				fmt.Fprintf(&b, " %s %d", at.word, int(at.at.Sub(began)/time.Minute))
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "before %d, waiting %d\n", t.Before, t.Waiting)
	return b.String()
}

// TestTheTimelineOfARevertedRolloutEnds: nothing is under way any more once the pool was reverted.
func TestTheTimelineOfARevertedRolloutEnds(t *testing.T) {
	got := history.NewTimeline(rolling(`{"config":"new","began":"2026-01-02T12:00:00Z","verdict":"Reverted","back":"old",`+
		`"at":"2026-01-02T12:09:00Z"}`, "n1 old old"), nil, nil)
	if !got.Reverted || got.Ended == nil || !got.Ended.Equal(after(9)) {
		t.Errorf("%+v", got)
	}
}

const record = `{"config":"new","began":"2026-01-02T12:00:00Z"}`

// TestTimeline: reports and events together give the times of each node.
func TestTimeline(t *testing.T) {
	old := began.Add(-time.Hour)
	for name, c := range map[string]struct {
		pool     *fleet.Pool
		machines []mcfgv1.MachineConfigNode
		events   []string
		want     string
	}{
		"a done node has the end of its update from its report, and earlier steps from events": {
			pool: rolling(record, "n1 new new"),
			machines: []mcfgv1.MachineConfigNode{machine("n1", old, "Updated True 9", "Drained False 9",
				"RebootedNode False 9")},
			events: []string{"n1 Drain 2", "n1 Reboot 4", "n1 NodeDone 10"}, want: "n1 began 2 drain 2 reboot 4 done " +
				"9\nbefore 0, waiting 0\n",
		},
		"a busy node has its present steps from its report": {
			pool: rolling(record, "n1 old new"),
			machines: []mcfgv1.MachineConfigNode{machine("n1", old, "Updated False 1", "Drained True 3",
				"RebootedNode Unknown 5")},
			want: "n1 began 1 drain 3 reboot 5\nbefore 0, waiting 0\n",
		},
		"a failed node, and one that recovered": {
			pool: rolling(record, "n1 old new", "n2 new new"),
			machines: []mcfgv1.MachineConfigNode{
				machine("n1", old, "Updated False 1", "NodeDegraded True 7"),
				machine("n2", old, "Updated True 30"),
			},
			events: []string{"n2 WentBack 8"}, want: "n2 done 30\nn1 began 1 failed 7\nbefore 0, waiting 0\n",
		},
		"a node that was Degraded before, and fails the config": {
			pool: rolling(record,
				`n1 old new {"config":"new","cause":"Drift","phase":"Blocked","since":"2026-01-02T12:02:00Z"}`),
			machines: []mcfgv1.MachineConfigNode{machine("n1", old, "Updated False 1", "NodeDegraded True -1")},
			want:     "n1 began 1 failed 2\nbefore 0, waiting 0\n",
		},
		"the last step comes first": {
			pool: rolling(record, "n1 new new", "n2 new new", "n3 old new"),
			machines: []mcfgv1.MachineConfigNode{
				machine("n1", old, "Updated True 5"), machine("n2", old, "Updated True 8"),
				machine("n3", old, "Updated False 6"),
			},
			want: "n2 done 8\nn3 began 6\nn1 done 5\nbefore 0, waiting 0\n",
		},
		"earlier and foreign times do not count": {
			pool: rolling(record, "n1 new new", "n2 old old", "n3 new new"),
			machines: []mcfgv1.MachineConfigNode{
				machine("n1", old, "Updated True -5"),
				machine("n2", old, "Updated True 5"), machine("n3", after(1), "Updated True 2"),
				machine("gone", old, "Updated True 3"),
			},
			events: []string{"n1 Reboot -3", "n2 NodeDone 4", "gone Drain 3", "n1 Strange 5"},
			want:   "before 2, waiting 1\n",
		},
		"events long after the end belong to something else": {
			pool: rolling(`{"config":"new","began":"2026-01-02T12:00:00Z","ended":"2026-01-02T12:10:00Z"}`,
				"n1 new new"), machines: []mcfgv1.MachineConfigNode{machine("n1", old, "Updated True 9")},
			events: []string{"n1 Reboot 4", "n1 Reboot 40"}, want: "n1 began 4 reboot 4 done 9\nbefore 0, waiting 0\n",
		},
		"a record of another config": {pool: rolling(`{"config":"old","began":"2026-01-02T12:00:00Z"}`, "n1 new new"), want: "before 0, waiting 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var events []corev1.Event
			for _, text := range c.events {
				events = append(events, event(text))
			}
			if diff := gocmp.Diff(c.want, lines(history.NewTimeline(c.pool, c.machines, events))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
