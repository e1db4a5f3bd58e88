package view

import (
	"slices"
	"testing"

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
