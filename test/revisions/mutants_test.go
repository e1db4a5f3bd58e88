package revisions

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// mutants lack one guard each, and the rules of which one must find that out.
var mutants = map[string]struct {
	core  Core
	rules []Rule
}{
	"records nothing before it writes": {Core{Record: func(_ *session, s *v1alpha1.GitSourceStatus) {
		s.Applying = nil
	}}, []Rule{WholeRevision, OwnPool, WholeObjects, NoLeftovers, HandedBack}},
	"compares MachineConfigs only": {Core{View: hiding(func(kind string) bool {
		return kind != revision.KindMachineConfig
	})}, []Rule{WholeRevision, OwnPool}},
	"does not compare pools": {Core{View: hiding(func(kind string) bool {
		return kind == revision.KindMachineConfigPool
	})}, []Rule{WholeRevision, OwnPool}},
	"accepts additions to selectors": {Core{View: trimmedSelectors}, []Rule{WholeRevision, OwnPool}},
	"rolls out what is not rendered from the selected MachineConfigs": {Core{Gate: func(g gate) gate {
		g.unrendered = false
		return g
	}}, []Rule{OwnPool}},
	"rolls out while a revision is applied": {Core{Gate: func(g gate) gate {
		g.unsettled, g.moving = "", ""
		return g
	}}, []Rule{WholeRevision, OwnPool}},
	"rolls out while a pool of another source changes": {Core{Gate: func(g gate) gate {
		g.moving = ""
		return g
	}}, []Rule{OwnPool}},
	"renders while a revision is applied": {Core{View: func(s *session, list client.ObjectList) {
		if s.who == theRender {
			presentWhole(s, list, func(*v1alpha1.GitSource) bool { return true })
		}
	}}, []Rule{WholeRevision}},
	"restores the newer revision": {Core{Record: func(s *session, status *v1alpha1.GitSourceStatus) {
		if a := status.Applying; a != nil && s.process.last != "" && a.Revision != status.AppliedRevision {
			a.Base = s.process.last
		}
	}}, []Rule{WholeObjects, WholeRevision, NoLeftovers, HandedBack}},
	"forgets what it created": {Core{Record: func(_ *session, s *v1alpha1.GitSourceStatus) {
		if s.Applying != nil {
			s.Applying.Created = nil
		}
	}}, []Rule{NoLeftovers}},
	"forgets what was not its own before": {Core{Content: func(c *revision.Content) { c.Foreign = nil }}, []Rule{HandedBack}},
	"deletes what was there before": {Core{
		Content: func(c *revision.Content) { c.Foreign = nil },
		Record: func(_ *session, s *v1alpha1.GitSourceStatus) {
			if a := s.Applying; a != nil {
				for _, e := range a.Inventory {
					a.Created = append(a.Created, revision.Key(e.Kind, e.Name))
				}
			}
		},
	}, []Rule{KeptObjects, HandedBack}},
	"ignores sources that feed a pool by its role only": {Core{View: func(s *session, list client.ObjectList) {
		presentWhole(s, list, hasConfigsOnly)
	}}, []Rule{WholeRevision}},
	"skips the dry run": {Core{NoDryRun: true}, []Rule{RefusedFirst}},
	"holds up every pool": {Core{Gate: func(g gate) gate {
		for _, s := range g.states {
			if !s.IsWhole() {
				g.unsettled = "GitSource " + s.Source.Name
			}
		}
		return g
	}}, []Rule{NewestRuns}},
	"trusts the record in its cache": {Core{OnlyChanges: true}, []Rule{WholeObjects, NewestRuns, WholeRevision, NoLeftovers, KeptObjects, HandedBack}},
}

// hiding hides from a reader that objects of some kinds belong to a source.
func hiding(hidden func(kind string) bool) func(*session, client.ObjectList) {
	drop := func(o client.Object, kind string) {
		if hidden(kind) {
			labels := o.GetLabels()
			delete(labels, v1alpha1.SourceLabel)
			o.SetLabels(labels)
		}
	}
	return func(_ *session, list client.ObjectList) {
		switch l := list.(type) {
		case *v1alpha1.GitSourceList:
			for i := range l.Items {
				l.Items[i].Status.Inventory = slices.DeleteFunc(l.Items[i].Status.Inventory,
					func(e v1alpha1.InventoryEntry) bool { return hidden(e.Kind) })
			}
		case *mcfgv1.MachineConfigPoolList:
			for i := range l.Items {
				drop(&l.Items[i], revision.KindMachineConfigPool)
			}
		case *operatorv1.MachineConfigurationList:
			for i := range l.Items {
				drop(&l.Items[i], revision.KindMachineConfiguration)
			}
		case *v1alpha1.DriftPolicyList:
			for i := range l.Items {
				drop(&l.Items[i], revision.KindDriftPolicy)
			}
		case *v1alpha1.RolloutPolicyList:
			for i := range l.Items {
				drop(&l.Items[i], revision.KindRolloutPolicy)
			}
		}
	}
}

// trimmedSelectors shows the pools of sources with the selectors that the repository wants.
func trimmedSelectors(_ *session, list client.ObjectList) {
	l, ok := list.(*mcfgv1.MachineConfigPoolList)
	if !ok {
		return
	}
	for i := range l.Items {
		var want mcfgv1.MachineConfigPool
		p := &l.Items[i]
		if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.WantedAnnotation]), &want); err == nil {
			p.Spec.MachineConfigSelector, p.Spec.NodeSelector = want.Spec.MachineConfigSelector, want.Spec.NodeSelector
		}
	}
}

// presentWhole shows some sources as if what is on the cluster were their revision.
func presentWhole(s *session, list client.ObjectList, which func(*v1alpha1.GitSource) bool) {
	l, ok := list.(*v1alpha1.GitSourceList)
	if !ok {
		return
	}
	raw := &session{w: &world{api: s.w.api}, cache: s.cache, process: &process{}}
	live, err := readLive(raw)
	if err != nil {
		panic(err)
	}
	for i := range l.Items {
		if src := &l.Items[i]; which(src) {
			src.Status.Applying, src.Status.Inventory = nil, live.owned(src.Name, &revision.Digests{})
		}
	}
}

// hasConfigsOnly reports whether a source has no pool and no policy.
func hasConfigsOnly(src *v1alpha1.GitSource) bool {
	all := slices.Clone(src.Status.Inventory)
	if a := src.Status.Applying; a != nil {
		all = append(all, a.Inventory...)
	}
	return !slices.ContainsFunc(all, func(e v1alpha1.InventoryEntry) bool {
		return e.Kind != revision.KindMachineConfig
	})
}

// mostSeeds is how many histories a mutant plays at most.
const mostSeeds = 4000

// longestStory is how many lines the story of a mutant may have.
const longestStory = 90

// firstSeeds are the seeds of the first histories that break a rule of some mutants: those before need not be played
// each time. A change to the histories moves them; a seed that is too low then costs time, and one that is too high
// finds a later one.
var firstSeeds = map[string]uint64{
	"holds up every pool":            579,
	"trusts the record in its cache": 1425,
}

// TestEveryMutantIsCaught: a rule that nothing can break proves nothing. Each mutant breaks one of its rules, and the
// story of that is short.
func TestEveryMutantIsCaught(t *testing.T) {
	collectRarely(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for s := max(firstSeeds[name], 1); s <= mostSeeds; s++ {
				h := Random(s)
				r := Play(h, m.core)
				if r.Broken == "" {
					continue
				}
				small := Shrink(h, m.core)
				story := Story(small, m.core)
				if !slices.Contains(m.rules, r.Broken) {
					t.Fatalf("seed %d breaks another rule than %q:\n%s", s, m.rules, story)
				}
				if lines := strings.Count(story, "\n"); lines > longestStory {
					t.Errorf("the story has %d lines:\n%s", lines, story)
				}
				t.Logf("seed %d, %d of %d steps:\n%s", s, len(small.Steps), len(h.Steps), story)
				return
			}
			t.Error("no history breaks a rule")
		})
	}
}
