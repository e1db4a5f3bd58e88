package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// TestEventsOfAllPools tells what happened to the pools since a time, and says at once what happened to several.
func TestEventsOfAllPools(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time {
		at := now.Add(-d)
		return &at
	}
	row := func(subject string, result history.Result, outcome string, began, ended time.Duration) history.Row {
		r := history.Row{
			Revision: subject, Subject: subject, Author: "Ada Lovelace <ada@example.com>",
			At:         ago(began),
			RowOutcome: history.RowOutcome{Result: result, Outcome: outcome, Nodes: 3, Began: ago(began)},
		}
		if ended > 0 {
			r.Ended = ago(ended)
		}
		return r
	}
	complete := history.Result(v1alpha1.RolloutCompleted)
	rolledOut := func(subject string, began, ended time.Duration) history.Row {
		return row(subject, complete, "rolled out to 3 nodes in 5m", began, ended)
	}
	of := func(pool string, rows ...history.Row) history.History {
		return history.History{Pool: pool, Rows: rows, Nodes: 3}
	}
	none := "No commit has given a pool with nodes a config yet.\n"
	for sentence, tc := range map[string]struct {
		all   []history.History
		since time.Duration
		want  string
	}{
		"there is no pool": {nil, 0, none},
		"nothing happened in the last hour": {
			[]history.History{of("edge", rolledOut("one", 3*time.Hour, 2*time.Hour))},
			time.Hour,
			"Nothing has happened since Fri 2026-01-02 11:00 UTC.\n",
		},
		"a rollout counts at its end": {
			[]history.History{of("edge", rolledOut("one", 3*time.Hour, 30*time.Minute))},
			time.Hour,
			"WHEN (UTC)   AGE   POOLS   COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:30:00     30m   edge    one      Ada Lovelace   one       rolled out to 3 nodes in 5m\n",
		},
		"one that goes on counts at its begin": {
			[]history.History{of("edge", row("one", history.ResultWaiting, "waiting at 1 of 3 nodes: drain of n1",
				30*time.Minute, 0))},
			time.Hour,
			"WHEN (UTC)   AGE   POOLS   COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:30:00     30m   edge    one      Ada Lovelace   one       waiting at 1 of 3 nodes\n",
		},
		"commits without an effect and what has not begun are left out": {
			[]history.History{of(
				"edge", row("one", history.ResultNoEffect, "no effect", time.Hour, 0),
				row("two", history.ResultPending, "not rendered yet", time.Hour, 0),
				row("three", history.ResultSkipped, "skipped", time.Hour, 0),
			)}, 0, none,
		},
		"what a commit did to several pools within an hour is one line, with the nodes and the time of all": {
			[]history.History{
				of("pool10", rolledOut("two", 125*time.Minute, 50*time.Minute),
					rolledOut("one", 5*time.Hour, 150*time.Minute)),
				of("pool9", rolledOut("two", 2*time.Hour, time.Hour),
					rolledOut("one", 5*time.Hour, 220*time.Minute)),
			},
			0,
			"WHEN (UTC)   AGE   POOLS           COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:10:00     50m   pool9, pool10   two      Ada Lovelace   two       " +
				"rolled out to 6 nodes in 1h15m\n" +
				"09:30:00     2h    pool10          one      Ada Lovelace   one       rolled out to 3 nodes in 5m\n" +
				"08:20:00     3h    pool9           one      Ada Lovelace   one       rolled out to 3 nodes in 5m\n",
		},
		"of many pools, the first ones are named": {
			func() (all []history.History) {
				for i := range 10 {
					all = append(all, of(fmt.Sprintf("p%d", i), rolledOut("two", 2*time.Hour, time.Hour)))
				}
				return all
			}(),
			0,
			"WHEN (UTC)   AGE   POOLS                                       " +
				"COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:00:00     60m   p0, p1, p2, p3, p4, p5, p6, p7 and 2 more   two      Ada Lovelace   two       " +
				"rolled out to 30 nodes in 1h\n",
		},
		"pools that wait for the same are one line": {
			[]history.History{
				of("pool10", row("two", history.ResultWaiting, "waiting at 1 of 3 nodes: a window", time.Hour, 0)),
				of("pool9", row("two", history.ResultWaiting, "waiting at 1 of 3 nodes: a window", time.Hour, 0)),
			},
			0,
			"WHEN (UTC)   AGE   POOLS           COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:00:00     60m   pool9, pool10   two      Ada Lovelace   two       " +
				"waiting at 1 of 3 nodes, each\n",
		},
		"a hold, a release and a change through the API are no rollouts of their commit": {
			func() []history.History {
				held, released, deleted := rolledOut("two", 50*time.Minute, 49*time.Minute),
					rolledOut("two", 40*time.Minute, 39*time.Minute), rolledOut("two", 30*time.Minute, 29*time.Minute)
				held.Cause, held.By = v1alpha1.RolloutCauseHold, "eve: bad"
				released.Cause, released.By = v1alpha1.RolloutCauseRelease, "eve"
				deleted.Cause = v1alpha1.RolloutCauseAPI
				deleted.After = []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-hand", Action: "Deleted"}}
				pushed := rolledOut("two", time.Hour, 59*time.Minute)
				return []history.History{of("edge", deleted, released, held, pushed)}
			}(),
			0,
			"WHEN (UTC)   AGE   POOLS   COMMIT   AUTHOR         SUBJECT                         OUTCOME\n" +
				"11:31:00     29m   edge    API      -              Deleted MachineConfig 99-hand   " +
				"rolled out to 3 nodes in 5m\n" +
				"11:21:00     39m   edge    two      Ada Lovelace   released by eve: two            " +
				"rolled out to 3 nodes in 5m\n" +
				"11:11:00     49m   edge    two      Ada Lovelace   held by eve: bad                " +
				"rolled out to 3 nodes in 5m\n" +
				"11:01:00     59m   edge    two      Ada Lovelace   two                             " +
				"rolled out to 3 nodes in 5m\n",
		},
		"what happened twice to a pool is two lines": {
			[]history.History{
				of("edge", rolledOut("two", 20*time.Minute, 10*time.Minute),
					rolledOut("two", 50*time.Minute, 40*time.Minute)),
				of("infra", rolledOut("two", 20*time.Minute, 15*time.Minute)),
			},
			0,
			"WHEN (UTC)   AGE   POOLS         COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:50:00     10m   edge, infra   two      Ada Lovelace   two       rolled out to 6 nodes in 10m\n" +
				"11:20:00     40m   edge          two      Ada Lovelace   two       rolled out to 3 nodes in 5m\n",
		},
		"another outcome is another line": {
			[]history.History{
				of("edge", rolledOut("two", 2*time.Hour, time.Hour)),
				of("infra", row("two", history.Result(v1alpha1.RolloutWasHalted), "halted at 1 of 2 nodes: n1 failed",
					2*time.Hour, time.Hour)),
			},
			0,
			"WHEN (UTC)   AGE   POOLS   COMMIT   AUTHOR         SUBJECT   OUTCOME\n" +
				"11:00:00     60m   edge    two      Ada Lovelace   two       rolled out to 3 nodes in 5m\n" +
				"11:00:00     60m   infra   two      Ada Lovelace   two       halted at 1 of 2 nodes\n",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var since time.Time
			if tc.since > 0 {
				since = now.Add(-tc.since)
			}
			if got := history.EventsText(history.Events(&fleet.Fleet{}, tc.all, since), since, now); got != tc.want {
				t.Errorf("the text is\n%s\nnot\n%s", got, tc.want)
			}
		})
	}
}
