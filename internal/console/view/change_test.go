package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

// A stream replaces regions by their ids. So the page of a commit that is not rendered yet has a place for its review.
func TestAReviewThatComesLaterHasAPlace(t *testing.T) {
	for name, p := range map[string]ChangePage{"commit": {}, "comparison": {Form: &CompareForm{}}} {
		before := p.Regions()
		p.Review = &report.Outline{}
		after := p.Regions()
		if !slices.EqualFunc(before, after, func(a, b Region) bool { return a.ID == b.ID }) {
			t.Errorf("%s: the pages have different regions", name)
		}
		if changed := ChangedRegions(before, after); len(changed) != 1 || changed[0].ID != "change-review" {
			t.Errorf("%s: changed are %v", name, changed)
		}
	}
}

// TestAnEndedRolloutSaysWhatHappened above the forecast, which is of the past.
func TestAnEndedRolloutSaysWhatHappened(t *testing.T) {
	ended := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	p := ChangePage{
		Head: &CommitHead{Pool: "worker", Row: history.Row{RowOutcome: history.RowOutcome{
			Nodes: 18, Updated: 18, Outcome: "rolled out to 18 nodes in 16s", Ended: &ended,
		}}},
		Forecast: []ForecastRow{
			{"Nodes", "18", "18 of 18 updated"},
			{forecastReboots, "18", "18"},
			{forecastDrains, "18", unknownNumber},
		},
	}
	if got, want := p.happened(), "worker: rolled out to 18 nodes in 16s, 18 reboots"; got != want {
		t.Errorf("what happened is %q, not %q", got, want)
	}
	p.Head.Row.Ended = nil
	if got := p.happened(); got != "" {
		t.Errorf("before the rollout ended, what happened is %q", got)
	}
}

// TestAHaltedRolloutSaysFirstWhatIsToCome: a reader asks what the commit reboots, and "0 reboots" is no answer.
func TestAHaltedRolloutSaysFirstWhatIsToCome(t *testing.T) {
	ended := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	p := ChangePage{
		Head: &CommitHead{Pool: "worker", Row: history.Row{RowOutcome: history.RowOutcome{
			Nodes: 18, Outcome: "halted at 0 of 18 nodes", Ended: &ended,
			Result: history.Result(v1alpha1.RolloutWasHalted),
		}}},
		Review:   &report.Outline{Costs: []report.Cost{{Line: "worker: 18 reboots", Disruptive: true}}},
		Forecast: []ForecastRow{{forecastReboots, "18", "0"}},
	}
	text := p.review().HTML()
	cost, happened := strings.Index(text, "18 reboots"), strings.Index(text, "halted at 0 of 18 nodes, 0 reboots")
	if cost < 0 || happened < cost {
		t.Errorf("the page begins with what happened, or lacks a part:\n%s", text)
	}
}
