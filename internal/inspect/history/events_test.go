package history_test

import (
	"fmt"
	"strings"
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
			"1 event since Fri 2026-01-02 11:00 UTC: 1 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                       POOLS   COMMIT   SUBJECT   AUTHOR\n" +
				"11:30:00     rolled out to 3 nodes in 5m   edge    one      one       Ada Lovelace\n",
		},
		"one that goes on counts at its begin": {
			[]history.History{of("edge", row("one", history.ResultWaiting, "waiting at 1 of 3 nodes: drain of n1",
				30*time.Minute, 0))},
			time.Hour,
			"1 event since Fri 2026-01-02 11:00 UTC: 1 waiting\n\n" +
				"WHEN (UTC)   OUTCOME                   POOLS   COMMIT   SUBJECT   AUTHOR\n" +
				"11:30:00     waiting at 1 of 3 nodes   edge    one      one       Ada Lovelace\n",
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
			"3 events: 3 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                          POOLS           COMMIT   SUBJECT   AUTHOR\n" +
				"11:10:00     rolled out to 6 nodes in 1h15m   pool9, pool10   two      two       Ada Lovelace\n" +
				"09:30:00     rolled out to 3 nodes in 5m      pool10          one      one       Ada Lovelace\n" +
				"08:20:00     rolled out to 3 nodes in 5m      pool9           one      one       Ada Lovelace\n",
		},
		"of many pools, the first ones are named": {
			func() (all []history.History) {
				for i := range 10 {
					all = append(all, of(fmt.Sprintf("p%d", i), rolledOut("two", 2*time.Hour, time.Hour)))
				}
				return all
			}(),
			0,
			"1 event: 1 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                        POOLS               COMMIT   SUBJECT   AUTHOR\n" +
				"11:00:00     rolled out to 30 nodes in 1h   p0, p1 and 8 more   two      two       Ada Lovelace\n",
		},
		"what went wrong is counted first, and its reason stands below its row, on one line": {
			func() []history.History {
				halted := row("two", history.Result(v1alpha1.RolloutWasHalted),
					"halted at 1 of 3 nodes: n1 failed: no space", time.Hour, 50*time.Minute)
				halted.Why = "n1 failed: no space\non \x1b[31m/boot"
				refused := row("three", history.ResultRefused, "refused, nothing of it was applied: a.bu:1:2: a typo",
					40*time.Minute, 0)
				refused.Why = "a.bu:1:2: a typo " + strings.Repeat("x", 200)
				refused.Subject = strings.Repeat("a long subject ", 10)
				return []history.History{of("edge", refused, halted, rolledOut("one", 2*time.Hour, time.Hour))}
			}(),
			0,
			"3 events: 1 halted, 1 refused, 1 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                       POOLS   COMMIT   " +
				"SUBJECT                                            AUTHOR\n" +
				"11:20:00     refused                       edge    three    " +
				"a long subject a long subject a long subject a …   Ada Lovelace\n" +
				"  a.bu:1:2: a typo " + strings.Repeat("x", 182) + "…\n" +
				"11:10:00     halted at 1 of 3 nodes        edge    two      " +
				"two                                                Ada Lovelace\n" +
				"  n1 failed: no space (+1 more)\n" +
				"11:00:00     rolled out to 3 nodes in 5m   edge    one      " +
				"one                                                Ada Lovelace\n" +
				"\nWhat needs you now: bunsen status\n",
		},
		"pools that wait for the same are one line": {
			[]history.History{
				of("pool10", row("two", history.ResultWaiting, "waiting at 1 of 3 nodes: a window", time.Hour, 0)),
				of("pool9", row("two", history.ResultWaiting, "waiting at 1 of 3 nodes: a window", time.Hour, 0)),
			},
			0,
			"1 event: 1 waiting\n\n" +
				"WHEN (UTC)   OUTCOME                         POOLS           COMMIT   SUBJECT   AUTHOR\n" +
				"11:00:00     waiting at 1 of 3 nodes, each   pool9, pool10   two      two       Ada Lovelace\n",
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
			"4 events: 4 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                       POOLS   COMMIT   SUBJECT                         AUTHOR\n" +
				"11:31:00     rolled out to 3 nodes in 5m   edge    API      Deleted MachineConfig 99-hand   -\n" +
				"11:21:00     rolled out to 3 nodes in 5m   edge    two      " +
				"released by eve: two            Ada Lovelace\n" +
				"11:11:00     rolled out to 3 nodes in 5m   edge    two      " +
				"held by eve: bad                Ada Lovelace\n" +
				"11:01:00     rolled out to 3 nodes in 5m   edge    two      " +
				"two                             Ada Lovelace\n",
		},
		"what happened twice to a pool is two lines": {
			[]history.History{
				of("edge", rolledOut("two", 20*time.Minute, 10*time.Minute),
					rolledOut("two", 50*time.Minute, 40*time.Minute)),
				of("infra", rolledOut("two", 20*time.Minute, 15*time.Minute)),
			},
			0,
			"2 events: 2 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                        POOLS         COMMIT   SUBJECT   AUTHOR\n" +
				"11:50:00     rolled out to 6 nodes in 10m   edge, infra   two      two       Ada Lovelace\n" +
				"11:20:00     rolled out to 3 nodes in 5m    edge          two      two       Ada Lovelace\n",
		},
		"another outcome is another line": {
			[]history.History{
				of("edge", rolledOut("two", 2*time.Hour, time.Hour)),
				of("infra", row("two", history.Result(v1alpha1.RolloutWasHalted), "halted at 1 of 2 nodes: n1 failed",
					2*time.Hour, time.Hour)),
			},
			0,
			"2 events: 1 halted, 1 rolled out\n\n" +
				"WHEN (UTC)   OUTCOME                       POOLS   COMMIT   SUBJECT   AUTHOR\n" +
				"11:00:00     rolled out to 3 nodes in 5m   edge    two      two       Ada Lovelace\n" +
				"11:00:00     halted at 1 of 2 nodes        infra   two      two       Ada Lovelace\n" +
				"\nWhat needs you now: bunsen status\n",
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
