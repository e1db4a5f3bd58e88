package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Needs returns what needs a person, the worst first.
func (o Overview) Needs() []Why {
	needs := slices.DeleteFunc(slices.Clone(o.Whys), func(w Why) bool { return !w.Outcome.NeedsUser() })
	slices.SortStableFunc(needs, func(a, b Why) int {
		return cmp.Or(b.Outcome.Rank()-a.Outcome.Rank(), b.behind()-a.behind())
	})
	return needs
}

// behind is how many nodes do not run what they should. A refused commit harms none yet.
func (w Why) behind() int {
	switch {
	case w.Pool != nil:
		return w.Pool.Nodes - w.Pool.Updated
	case w.Node != nil:
		return 1
	}
	return 0
}

// Moves returns the pools and GitSources that change without a person, or wait for something that ends by itself.
func (o Overview) Moves() []Why {
	return slices.DeleteFunc(slices.Clone(o.Whys), func(w Why) bool { return w.Outcome.NeedsUser() })
}

// Rest returns the pools of which neither Needs nor Moves says anything of their own: they are fine, or they only wait
// for what one of Needs names.
func (o Overview) Rest() []PoolRow {
	return slices.DeleteFunc(slices.Clone(o.Status.Pools), func(row PoolRow) bool {
		return slices.ContainsFunc(o.Whys, func(w Why) bool { return w.About == "pool/"+row.Name })
	})
}

// Headline answers in a few words whether something needs a person.
func (o Overview) Headline() string {
	needs, moves := len(o.Needs()), len(o.Moves())
	if o.Status.Notifier.Text() != "" {
		needs++
	}
	switch {
	case needs == 1:
		return "1 thing needs you"
	case needs > 1:
		return fmt.Sprintf("%d things need you", needs)
	case len(o.Status.Pools) == 0:
		return "There is no pool yet"
	case moves > 0:
		return o.movesText()
	case o.Status.Unfollowed != "":
		return o.Status.Unfollowed
	}
	return "All is well"
}

// Counts says how much is beside what the headline counts.
func (o Overview) Counts() string {
	needs, moves, fine := len(o.Needs()), len(o.Moves()), 0
	for _, row := range o.Rest() {
		if !row.Outcome.NeedsUser() && (row.Target != "" || o.Status.Unfollowed == "") {
			fine++
		}
	}
	var parts []string
	if needs > 0 && moves > 0 {
		parts = append(parts, o.movesText())
	}
	if fine > 0 {
		parts = append(parts, countOf(fine, "pool is well", "pools are well"))
	}
	nodes, failed := fleet.Count(len(o.Status.Nodes), "node"), 0
	for _, row := range o.Status.Pools {
		failed += row.Degraded
	}
	if failed > 0 {
		nodes += fmt.Sprintf(", %d of them degraded", failed)
	}
	return strings.Join(append(parts, nodes), " · ")
}

func (o Overview) movesText() string {
	moves := o.Moves()
	if slices.ContainsFunc(moves, func(w Why) bool { return w.Pool == nil }) {
		return countOf(len(moves), "thing moves", "things move")
	}
	return countOf(len(moves), "rollout moves", "rollouts move")
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// FindSince sets since when a person is needed: the time at which the object's status said so first; nil if unknown.
func (w *Why) FindSince(f *fleet.Fleet) {
	if !w.Outcome.NeedsUser() {
		return
	}
	kind, name, _ := strings.Cut(w.About, "/")
	switch kind {
	case "gitsource":
		for i := range f.Sources {
			if f.Sources[i].Name != name {
				continue
			}
			c := meta.FindStatusCondition(f.Sources[i].Status.Conditions, v1alpha1.ReadyCondition)
			if c != nil && c.Status == metav1.ConditionFalse {
				w.Since = fleet.TimeOrNil(c.LastTransitionTime.Time)
			}
		}
	case "pool":
		v := f.PoolByName[name]
		if at := v.Decision.Record.At; at != nil && v.Decision.Record.Verdict != "" {
			w.Since = fleet.TimeOrNil(at.Time)
			return
		}
		for _, kind := range []mcfgv1.MachineConfigPoolConditionType{
			v1alpha1.RolloutBlockedCondition, mcfgv1.MachineConfigPoolDegraded,
		} {
			if c := v.Condition(kind); c.Status == corev1.ConditionTrue && w.Since == nil {
				w.Since = fleet.TimeOrNil(c.LastTransitionTime.Time)
			}
		}
	}
}
