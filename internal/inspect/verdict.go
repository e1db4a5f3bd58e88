package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Verdicts returns the outcome and the main reason of each GitSource, of each pool, and of each node that several pools
// select, so that none has it: the first line of what `bunsen why` says about it.
func Verdicts(f *fleet.Fleet) []v1alpha1.Verdict {
	out := make([]v1alpha1.Verdict, 0, len(f.Sources)+len(f.Pools))
	add := func(kind, name string, first Answer) {
		out = append(out, v1alpha1.Verdict{
			Kind: kind, Name: name, Outcome: first.Outcome, Cause: string(first.Cause),
			Message: fleet.OneLine(first.Reason),
		})
	}
	for i := range f.Sources {
		src := &f.Sources[i]
		add("GitSource", src.Name, sourceAnswers(f, src, poolsOf(f, src))[0])
	}
	for i := range f.Pools {
		add("MachineConfigPool", f.Pools[i].Name, PoolReason(f, f.PoolByName[f.Pools[i].Name], nil)[0])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Conflicts)) {
		add("Node", name, NodeReason(f, nil, f.Conflicts[name], nil)[0])
	}
	return out
}

// mostNamed is how many pools and sources of one outcome a sentence names.
const mostNamed = 3

// Sentence says how the whole cluster is: what is not fine by its outcome, the worst first, and how much there is.
func (s Status) Sentence() string {
	if s.Outcome == Fine {
		return fmt.Sprintf("All is well: %s, %s and %s.", fleet.Count(len(s.Sources), "source"),
			fleet.Count(len(s.Pools), "pool"), fleet.Count(len(s.Nodes), "node"))
	}
	names := map[Outcome][]string{}
	for _, r := range s.Sources {
		names[r.Outcome] = append(names[r.Outcome], "gitsource/"+r.Name)
	}
	for _, r := range s.Pools {
		names[r.Outcome] = append(names[r.Outcome], "pool/"+r.Name)
	}
	for _, r := range s.Nodes {
		if r.Cause == fleet.CauseConflict {
			names[Blocked] = append(names[Blocked], "node/"+r.Name)
		}
	}
	var texts []string
	for i := len(v1alpha1.Outcomes) - 1; i > 0; i-- {
		if o := v1alpha1.Outcomes[i]; len(names[o]) > 0 {
			texts = append(texts, strings.ToLower(string(o))+": "+fleet.Names(names[o], mostNamed))
		}
	}
	text := strings.Join(texts, "; ")
	if fine := len(names[Fine]); fine > 0 {
		text += fmt.Sprintf("; the other %d are fine", fine)
		if fine == 1 {
			text = strings.TrimSuffix(text, "the other 1 are fine") + "the other one is fine"
		}
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
