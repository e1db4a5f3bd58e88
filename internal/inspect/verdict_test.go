package inspect_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestTheSentenceAboutTheCluster names what is not fine, the worst first.
func TestTheSentenceAboutTheCluster(t *testing.T) {
	pools := func(outcomes ...v1alpha1.Outcome) (s inspect.Status) {
		s.Outcome = v1alpha1.OutcomeFine
		for i, o := range outcomes {
			s.Pools = append(s.Pools, inspect.PoolRow{Name: string(rune('a' + i)), Outcome: o})
			s.Outcome = s.Outcome.Worse(o)
		}
		s.Nodes = make([]fleet.NodeRow, 3)
		return s
	}
	const (
		fine, moving     = v1alpha1.OutcomeFine, v1alpha1.OutcomeProgressing
		blocked, degrade = v1alpha1.OutcomeBlocked, v1alpha1.OutcomeDegraded
	)
	withSource := pools(fine)
	withSource.Outcome = blocked
	withSource.Sources = []inspect.SourceRow{{Name: "config", Outcome: blocked}}
	for want, s := range map[string]inspect.Status{
		"All is well: 0 sources, 2 pools and 3 nodes.":                      pools(fine, fine),
		"Degraded: pool/b; the other one is fine.":                          pools(fine, degrade),
		"Degraded: pool/c; blocked: pool/b; progressing: pool/a.":           pools(moving, blocked, degrade),
		"Blocked: pool/a, pool/b, pool/c and 1 more; the other 2 are fine.": pools(blocked, blocked, blocked, blocked, fine, fine),
		"Blocked: gitsource/config; the other one is fine.":                 withSource,
	} {
		t.Run(want, func(t *testing.T) {
			if got := s.Sentence(); got != want {
				t.Errorf("the sentence is %q", got)
			}
		})
	}
}
