package revision_test

import (
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// TestIsOverdue: what a pool waits for has its own time, because a large revision is applied, and then rendered.
func TestIsOverdue(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var check revision.PoolCheck
	for _, step := range []struct {
		pool, why string
		at        time.Duration
		want      bool
	}{
		{"worker", "it is applied", 0, false},
		{"worker", "it is applied", 9 * time.Second, false},
		{"worker", "it is applied", 10 * time.Second, true},
		{"infra", "it is applied", 10 * time.Second, false},
		{"worker", "it is not rendered", 12 * time.Second, false},
		{"worker", "it is not rendered", 21 * time.Second, false},
		{"worker", "it is not rendered", 22 * time.Second, true},
	} {
		if got := check.IsOverdue(step.pool, step.why, noon.Add(step.at)); got != step.want {
			t.Errorf("after %s, %s waits (%s): overdue %t", step.at, step.pool, step.why, got)
		}
	}
}
