package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// TestUpdatesOfANode makes one line of the events of each update, the newest first.
func TestUpdatesOfANode(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	event := func(second int, reason, text string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n0"}, Reason: reason, Message: text,
			LastTimestamp: metav1.NewTime(noon.Add(time.Duration(second) * time.Second)),
		}
	}
	by := func(e corev1.Event, host string) corev1.Event {
		e.Source.Host = host
		return e
	}
	of := func(e corev1.Event, kind string) corev1.Event {
		e.InvolvedObject.Kind = kind
		return e
	}
	done := []corev1.Event{
		event(0, "Cordon", "cordoned for b"), event(1, "Drain", "draining for b"), event(9, "Reboot", "into b"),
		event(60, "Uncordon", "uncordoned in b"), by(event(61, "NodeDone", "the node is in b"), "n0"),
	}
	for sentence, tc := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"there are no events": {nil, ""},
		"an update ended": {
			done, "1m1s: the node is in b (cordoned 0s, drain requested 1s, reboot 9s, uncordoned 1m0s, done 1m1s)",
		},
		"the events come in any order": {
			[]corev1.Event{done[4], done[2], done[0], done[3], done[1]},
			"1m1s: the node is in b (cordoned 0s, drain requested 1s, reboot 9s, uncordoned 1m0s, done 1m1s)",
		},
		"a second update is under way": {
			append(done[:5:5], event(100, "Cordon", "cordoned for c"), event(101, "Drain", "draining for c")),
			"under way: draining for c (cordoned 1m40s, drain requested 1m41s)\n" +
				"1m1s: the node is in b (cordoned 0s, drain requested 1s, reboot 9s, uncordoned 1m0s, done 1m1s)",
		},
		"the node went back": {
			[]corev1.Event{event(1, "Drain", "draining for b"), event(5, "WentBack", "back in a")},
			"4s, failed: back in a (drain requested 1s, went back 5s)",
		},
		"other events are no steps":       {[]corev1.Event{event(1, "NodeReady", "ready"), of(done[0], "Pod")}, ""},
		"another node writes about it":    {[]corev1.Event{by(done[1], "n1")}, ""},
		"the begin has expired meanwhile": {done[3:], "1s: the node is in b (uncordoned 1m0s, done 1m1s)"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var lines []string
			for _, u := range history.Updates("n0", tc.events) {
				var steps []string
				for _, s := range u.Steps {
					steps = append(steps, fmt.Sprintf("%s %s", s.Name, s.At.Sub(noon)))
				}
				line := u.Took().String()
				switch {
				case u.Ended.IsZero():
					line = "under way"
				case u.Failed:
					line += ", failed"
				}
				lines = append(lines, fmt.Sprintf("%s: %s (%s)", line, u.Text, strings.Join(steps, ", ")))
			}
			if got := strings.Join(lines, "\n"); got != tc.want {
				t.Errorf("the updates are\n%s\nnot\n%s", got, tc.want)
			}
		})
	}
}
