package revision_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// TestLeft: what a GitSource left that was deleted holds up a pool only where it may be half a revision. The pool was
// last rendered from motd and net of GitSource os, and from hand, which a user created.
func TestLeft(t *testing.T) {
	const was = "motd 1 os, net 1 os, hand 1"
	for sentence, c := range map[string]struct {
		inputs string
		// sources exist now. recorded are the inputs of a config that an older controller rendered.
		sources  map[string]string
		recorded map[string]string
		held     bool
	}{
		"all is as it was rendered":                                  {inputs: was},
		"a user changed what belongs to no source":                   {inputs: "motd 1 os, net 1 os, hand 2"},
		"a user created a MachineConfig":                             {inputs: was + ", more 1"},
		"a user deleted what belongs to no source":                   {inputs: "motd 1 os, net 1 os"},
		"an input of the source changed":                             {inputs: "motd 2 os, net 1 os, hand 1", held: true},
		"an input of the source came":                                {inputs: was + ", late 1 os", held: true},
		"an input of the source is gone":                             {inputs: "motd 1 os, hand 1", held: true},
		"a user removed the label of all of them":                    {inputs: "motd 2, net 1, hand 1"},
		"a user deleted all of them":                                 {inputs: "hand 1"},
		"the source exists again":                                    {inputs: "motd 2 os, net 1 os", sources: map[string]string{"os": "2"}},
		"a source that the pool was never rendered with":             {inputs: was + ", late 1 other", held: true},
		"an older controller rendered the same":                      {inputs: was, recorded: map[string]string{"motd": "sha256:1", "net": "1", "hand": "1"}},
		"an older controller rendered something else":                {inputs: was, recorded: map[string]string{"motd": "1", "net": "2", "hand": "1"}, held: true},
		"an older controller rendered something that is gone by now": {inputs: was, recorded: map[string]string{"motd": "1", "net": "1", "hand": "1", "more": "1"}, held: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			facts := revision.TargetFacts{
				Pool: "worker", Config: "r1", Inputs: inputs(was),
				Sources: map[string]string{"os": "1"},
			}
			old := revision.NextTarget(v1alpha1.PoolTarget{}, facts)
			now := revision.TargetFacts{Pool: "worker", Inputs: inputs(c.inputs), Sources: c.sources}
			if c.recorded != nil {
				old = v1alpha1.PoolTarget{}
			}
			records := map[string]v1alpha1.PoolTarget{"before the source was deleted": old}
			if facts.Sources = nil; c.recorded == nil { // rendered once more after that
				records["after that"] = revision.NextTarget(old, facts)
			}
			for when, record := range records {
				err := revision.Left(record, now, c.recorded)
				if (err != nil) != c.held || c.held && !strings.Contains(err.Error(),
					"differ from those in the last config") {
					t.Errorf("with the record of %s: %v", when, err)
				}
			}
		})
	}
}
