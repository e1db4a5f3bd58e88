package revision_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// inputs reads `name digest [source]` items.
func inputs(text string) []v1alpha1.TargetInput {
	var out []v1alpha1.TargetInput
	for item := range strings.SplitSeq(text, ", ") {
		f := append(strings.Fields(item), "", "", "")
		if f[0] != "" {
			out = append(out, v1alpha1.TargetInput{Name: f[0], Digest: f[1], Source: f[2]})
		}
	}
	return out
}

// TestNextTarget: who asked for the config that a pool was rendered to. The pool was at config r1, from main@sha1:1 of
// GitSource os.
func TestNextTarget(t *testing.T) {
	const was = "motd 1 os, hand 1"
	for sentence, c := range map[string]struct {
		was, inputs, config string
		// sources has the revisions that are applied now.
		sources map[string]string
		want    string
		// gone: there was no GitSource before.
		gone bool
	}{
		"a commit changed an input":                               {was, "motd 2 os, hand 1", "r2", map[string]string{"os": "2"}, "os@2", false},
		"a commit added an input":                                 {was, "motd 1 os, more 1 os, hand 1", "r2", map[string]string{"os": "2"}, "os@2", false},
		"a commit removed an input":                               {was, "hand 1", "r2", map[string]string{"os": "2"}, "os@2", false},
		"a user made a MachineConfig":                             {"motd 1 os", "motd 1 os, hand 1", "r2", map[string]string{"os": "1"}, "os@1 before r1: MachineConfig hand Created", false},
		"a user changed one":                                      {was, "motd 1 os, hand 2", "r2", map[string]string{"os": "1"}, "os@1 before r1: MachineConfig hand Changed", false},
		"a user deleted one":                                      {was, "motd 1 os", "r2", map[string]string{"os": "1"}, "os@1 before r1: MachineConfig hand Deleted", false},
		"a commit that did not change the pool came at that time": {was, "motd 1 os, hand 2", "r2", map[string]string{"os": "2"}, "os@2 before r1: MachineConfig hand Changed", false},
		"a commit and a user changed inputs":                      {was, "motd 2 os, hand 2", "r2", map[string]string{"os": "2"}, "os@2 also: MachineConfig hand Changed", false},
		"a user changed the pool's selector":                      {was, "hand 1", "r2", map[string]string{"os": "1"}, "os@1 before r1: MachineConfigPool worker Changed", false},
		"nothing is new":                                          {was, "motd 1 os, hand 1", "r1", map[string]string{"os": "2"}, "os@1", false},
		"an input without effect came, so nobody asked":           {"motd 1 os", "motd 1 os, hand 1", "r1", map[string]string{"os": "1"}, "os@1", false},
		"the source is gone, and a user edited what it left":      {was, "motd 2 os, hand 1", "r2", nil, "os@ before r1: MachineConfig motd Changed", true},
		"the source came back and restored what a user edited":    {"motd 2 os", "motd 1 os", "r2", map[string]string{"os": "2"}, "os@2", true},
		"an older controller recorded no inputs":                  {"", "motd 1 os, hand 1", "r2", map[string]string{"os": "1"}, "os@1", false},
		"another source moved, and this one did not":              {"motd 1 os, net 1 net", "motd 1 os, net 2 net", "r2", map[string]string{"os": "1", "net": "5"}, "os@1", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			before := map[string]string{"os": "1", "net": "4"}
			if c.gone {
				before = nil
			}
			old := revision.NextTarget(v1alpha1.PoolTarget{}, revision.TargetFacts{
				Pool: "worker", Config: "r1", Commit: v1alpha1.CommitInfo{Revision: "os@1"}, Inputs: inputs(c.was),
				Sources: before,
			})
			if c.was == "" {
				old = v1alpha1.PoolTarget{Config: "r1", Requester: old.Requester}
			}
			got := revision.NextTarget(old, revision.TargetFacts{
				Pool: "worker", Config: c.config, Commit: v1alpha1.CommitInfo{Revision: "os@" + c.sources["os"]},
				Inputs: inputs(c.inputs), Sources: c.sources,
			})
			text := got.Revision
			if got.Before != "" {
				text += " before " + got.Before
			}
			if got.AlsoCommit {
				text += " also"
			}
			for i, a := range got.API {
				text += []string{": ", ", "}[min(i, 1)] + a.Kind + " " + a.Name + " " + string(a.Action)
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestNextTargetOfSeveral: who asked after several renders. Every step is `config = inputs @ revision of os`; `healthy`
// after it means that the whole pool was healthy with the config before the next step.
func TestNextTargetOfSeveral(t *testing.T) {
	for sentence, c := range map[string]struct {
		steps []string
		want  string
	}{
		"a user took a new MachineConfig back": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r1 = motd 1 os @ 1"},
			"os@1 after Deleted hand",
		},
		"a user took one back with which the pool was healthy": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1 healthy", "r1 = motd 1 os @ 1"},
			"os@1 after Deleted hand",
		},
		"a commit without effect came in between": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r2 = motd 1 os, hand 1 @ 2",
				"r1 = motd 1 os @ 2",
			}, "os@1 after Deleted hand",
		},
		"a user took a change back after another change": {
			[]string{
				"r1 = motd 1 os, hand 1 @ 1 healthy", "r2 = motd 1 os, hand 2 @ 1", "r3 = motd 1 os, hand 3 @ 1",
				"r1 = motd 1 os, hand 1 @ 1",
			}, "os@1 after Changed hand",
		},
		"a user made a deleted one again": {
			[]string{"r1 = motd 1 os, hand 1 @ 1 healthy", "r2 = motd 1 os @ 1", "r1 = motd 1 os, hand 1 @ 1"},
			"os@1 after Created hand",
		},
		"a commit came on a change that is not healthy": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r3 = motd 2 os, hand 1 @ 2"},
			"Created hand; os@2",
		},
		"and another one": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r3 = motd 2 os, hand 1 @ 2",
				"r4 = motd 3 os, hand 1 @ 3",
			}, "Created hand; os@3",
		},
		"then a user took it back, so the config is that of the newest commit alone": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r3 = motd 2 os, hand 1 @ 2",
				"r4 = motd 2 os @ 2",
			}, "os@2 after Deleted hand",
		},
		"a commit came on a change that is healthy": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1 healthy", "r3 = motd 2 os, hand 1 @ 2"},
			"os@2",
		},
		"the whole pool was healthy before the commit, and a user deleted what was there": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1 healthy", "r3 = motd 2 os, hand 1 @ 2",
				"r4 = motd 2 os @ 2",
			}, "Deleted hand on os@2",
		},
		"a user made one on a commit with which the pool was not healthy": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = motd 2 os @ 2", "r3 = motd 2 os, hand 1 @ 2"},
			"Created hand on os@2",
		},
		"and another one after a commit without effect": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 2 os @ 2", "r3 = motd 2 os, hand 1 @ 2",
				"r4 = motd 2 os, hand 1, more 1 @ 3",
			}, "Created more; Created hand on os@2",
		},
		"and took back what the commit did": {
			[]string{
				"r1 = motd 1 os, hand 1 @ 1 healthy", "r2 = motd 1 os, hand 1, more 1 os @ 2",
				"r1 = motd 1 os, hand 1 @ 3",
			}, "os@3",
		},
		"no config of the pool was healthy yet, so no commit is told from the changes": {
			[]string{"r1 = motd 1 os @ 1", "r2 = motd 2 os @ 2", "r3 = motd 2 os, hand 1 @ 2"}, "Created hand",
		},
		"of two changes one was taken back": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1", "r3 = motd 1 os, hand 1, more 1 @ 1",
				"r4 = motd 1 os, more 1 @ 1",
			}, "Created more after Deleted hand",
		},
		"only the change that is not healthy is named": {
			[]string{
				"r1 = motd 1 os @ 1 healthy", "r2 = motd 1 os, hand 1 @ 1 healthy",
				"r3 = motd 1 os, hand 1, more 1 @ 1", "r4 = motd 2 os, hand 1, more 1 @ 2",
			}, "Created more; os@2",
		},
		"the selector is as it was": {
			[]string{"r1 = motd 1 os @ 1 healthy", "r2 = hand 1 @ 1", "r1 = motd 1 os @ 1"},
			"os@1 after Deleted hand after Changed worker",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got v1alpha1.PoolTarget
			healthy := ""
			for _, step := range c.steps {
				step, isHealthy := strings.CutSuffix(step, " healthy")
				config, rest, _ := strings.Cut(step, " = ")
				in, applied, _ := strings.Cut(rest, " @ ")
				got = revision.NextTarget(got, revision.TargetFacts{
					Pool: "worker", Config: config, Healthy: healthy,
					Commit: v1alpha1.CommitInfo{Revision: "os@" + applied}, Inputs: inputs(in),
					Sources: map[string]string{"os": applied},
				})
				if isHealthy {
					healthy = config
				}
			}
			var parts []string
			for _, a := range got.API {
				parts = append(parts, string(a.Action)+" "+a.Name)
			}
			if !got.ByAPI() {
				parts = append(parts, got.Revision)
			}
			text := strings.Join(parts, "; ")
			for _, a := range got.After {
				text += " after " + string(a.Action) + " " + a.Name
			}
			if got.Unproven != nil {
				text += " on " + got.Unproven.Revision
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestATargetFitsIntoAnAnnotation: a pool of thousands of MachineConfigs is recorded as well.
func TestATargetFitsIntoAnAnnotation(t *testing.T) {
	var in []v1alpha1.TargetInput
	for i := range 5000 {
		in = append(in, v1alpha1.TargetInput{
			Name:   fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 200)),
			Digest: strings.Repeat("d", 16), Source: []string{"", "os"}[min(i/200, 1)],
		})
	}
	facts := revision.TargetFacts{Pool: "worker", Config: "r1", Inputs: in, Sources: map[string]string{"os": "1"}}
	if text := revision.NextTarget(v1alpha1.PoolTarget{}, facts).String(); len(text) > 64<<10 {
		t.Errorf("it has %d bytes", len(text))
	}
	facts.Sources = nil
	if text := revision.NextTarget(v1alpha1.PoolTarget{}, facts).String(); len(text) > 64<<10 {
		t.Errorf("without a GitSource it has %d bytes", len(text))
	}
}

// TestGivenBy: a change through the API is not recorded as what the commit gave, also where several came.
func TestGivenBy(t *testing.T) {
	sources := map[string]string{"os": "1"}
	next := func(was v1alpha1.PoolTarget, config, in string) v1alpha1.PoolTarget {
		return revision.NextTarget(was, revision.TargetFacts{
			Pool: "worker", Config: config,
			Commit: v1alpha1.CommitInfo{Revision: "os@1"}, Inputs: inputs(in), Sources: sources,
		})
	}
	first := next(v1alpha1.PoolTarget{}, "r1", "motd 1 os")
	second := next(first, "r2", "motd 1 os, hand 1")
	third := next(second, "r3", "motd 1 os, hand 2")
	for sentence, c := range map[string]struct {
		target                 v1alpha1.PoolTarget
		revision, config, want string
	}{
		"the commit gave the first config":                    {first, "os@1", "r1", "r1"},
		"it did not give what a user asked for":               {second, "os@1", "r2", "r1"},
		"nor what a user asked for after that":                {third, "os@1", "r3", "r1"},
		"a later commit without effect came on what is there": {third, "os@2", "r3", "r3"},
		"a record of another config says nothing":             {third, "os@1", "r4", "r4"},
	} {
		if got := revision.GivenBy(c.target, c.revision, c.config); got != c.want {
			t.Errorf("%s: got %q, want %q", sentence, got, c.want)
		}
	}
}
