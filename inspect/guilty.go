package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// guilty are the nodes for which a pool went back, with what they failed; as the record has it, which names a few.
func (v *poolView) guilty() map[string]string {
	r := v.wave.Record
	if r.Verdict != v1alpha1.RolloutReverted {
		return nil
	}
	if len(r.Failed) > 0 {
		out := map[string]string{}
		for _, n := range r.Failed {
			out[n.Node] = n.Why
		}
		return out
	}
	return failedInWords(v)
}

// failedInWords reads the failed nodes out of the words of a record that an older controller wrote.
func failedInWords(v *poolView) map[string]string {
	r := v.wave.Record
	type part struct {
		at   int
		name string
	}
	const between = "; "
	text := between + r.Why
	parts := []part{{len(text), ""}}
	for _, row := range v.rows {
		if at := strings.Index(text, between+row.Name+" "); at >= 0 {
			parts = append(parts, part{at, row.Name})
		}
	}
	if at := strings.LastIndex(text, between+"and "); at > 0 && strings.HasSuffix(text, " more") {
		parts = append(parts, part{at, ""})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.at, b.at) })
	out := map[string]string{}
	for i, p := range parts[:len(parts)-1] {
		if p.name != "" {
			out[p.name] = strings.TrimPrefix(text[p.at:parts[i+1].at], between+p.name+" ")
		}
	}
	return out
}

// wentBack is the answer for a node for which its pool went back.
func (f nodeReasons) wentBack(v *poolView, row NodeRow) (Answer, bool) {
	why := v.guilty()[row.Name]
	return Answer{
		Outcome: Degraded, Cause: rollout.CauseReverted, Reason: "it " + why,
		Do: verdictActions(f.fleet, v),
	}, why != ""
}
