package view_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestEachChangeHasARow: what a hold, a retry or the API did with a commit is not what the push did.
func TestEachChangeHasARow(t *testing.T) {
	c := cluster(2)
	commit := v1alpha1.Requester{
		Revision: c.Sources[0].Status.History[0].Revision, Subject: "change 0", Author: "Ada <ada@example.org>",
	}
	rollout := func(cause v1alpha1.RolloutCause, ago time.Duration) v1alpha1.RolloutOutcome {
		o := v1alpha1.RolloutOutcome{
			Requester: commit, Config: newer, Before: older, Result: v1alpha1.RolloutCompleted, Updated: 2, Nodes: 2,
			Began: metav1.NewTime(noon.Add(-ago)), Ended: metav1.NewTime(noon.Add(time.Minute - ago)),
		}
		o.Cause = cause
		return o
	}
	pushed := rollout(v1alpha1.RolloutCausePush, 30*time.Minute)
	held, deleted := rollout(v1alpha1.RolloutCauseHold, 20*time.Minute), rollout(v1alpha1.RolloutCauseAPI, time.Minute)
	held.By = "eve: bad"
	deleted.After = []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-hand", Action: "Deleted"}}
	past, err := json.Marshal([]v1alpha1.RolloutOutcome{deleted, held, pushed})
	if err != nil {
		t.Fatal(err)
	}
	c.Pools[0].Annotations = map[string]string{v1alpha1.RolloutHistoryAnnotation: string(past)}
	f := fleet.New(c, noon)
	got := html(view.Commits(f, inspect.StatusOf(f)))
	checkHTML(t, got)
	// The pool records no rollout that goes on, so its target is one more row of the commit.
	for want, rows := range map[string]int{"Deleted MachineConfig 99-hand": 1, "held by eve: bad": 1, "change 0": 2} {
		if got := strings.Count(got, ">"+want+"<"); got != rows {
			t.Errorf("%q has %d rows, want %d", want, got, rows)
		}
	}
	day := html(overview(c))
	for _, want := range []string{"Deleted MachineConfig 99-hand", "held by eve: bad", "change 0"} {
		if !strings.Contains(day, want) {
			t.Errorf("%q did not happen since yesterday in\n%s", want, day)
		}
	}
	if strings.Contains(day, "held by eve: bad by Ada") {
		t.Error("the author of the commit is told to hold the pool")
	}
}
