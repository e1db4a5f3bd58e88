package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestTheHistoryOfAPoolIsBounded: the newest rollouts stay, and of the older ones those that failed, in their order.
func TestTheHistoryOfAPoolIsBounded(t *testing.T) {
	text := ""
	for i := range 200 {
		o := v1alpha1.RolloutOutcome{Config: fmt.Sprintf("rendered-worker-%03d", i), Result: v1alpha1.RolloutCompleted}
		if i%5 == 0 {
			o.Result = v1alpha1.RolloutWasHalted
		}
		text = v1alpha1.AddRolloutOutcomes(text, []v1alpha1.RolloutOutcome{o})
	}
	all, err := v1alpha1.ParseRolloutHistory(text)
	if err != nil || len(all) != v1alpha1.MaxRolloutHistory+v1alpha1.MaxFailedHistory {
		t.Fatalf("%d rollouts, %v", len(all), err)
	}
	for i, o := range all {
		want := fmt.Sprintf("rendered-worker-%03d", 199-i)
		if older := i - v1alpha1.MaxRolloutHistory; older >= 0 {
			want = fmt.Sprintf("rendered-worker-%03d", 175-5*older)
		}
		if o.Config != want {
			t.Errorf("rollout %d is that of %s, want %s", i, o.Config, want)
		}
	}
	large := v1alpha1.RolloutOutcome{Config: "large", Why: strings.Repeat("x", 20<<10)}
	text = v1alpha1.AddRolloutOutcomes(text, []v1alpha1.RolloutOutcome{large, large, large, large, large})
	all, err = v1alpha1.ParseRolloutHistory(text)
	if len(text) > v1alpha1.MaxRolloutHistoryBytes || err != nil || len(all) != 4 {
		t.Errorf("%d bytes, %d rollouts, %v", len(text), len(all), err)
	}
	if got := v1alpha1.AddRolloutOutcomes("{", all[:1]); !strings.Contains(got, `"large"`) {
		t.Errorf("after a history that cannot be read: %.40s", got)
	}
}
