package revision_test

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// inventory reads `Kind/name digest [role]`, an entry a line.
func inventory(text string) []v1alpha1.InventoryEntry {
	var out []v1alpha1.InventoryEntry
	for line := range strings.Lines(text) {
		f := append(strings.Fields(line), "", "")
		if f[0] == "" {
			continue
		}
		kind, name := revision.SplitKey(f[0])
		out = append(out, v1alpha1.InventoryEntry{Kind: kind, Name: name, Digest: f[1], Role: f[2]})
	}
	return out
}

// TestUnsettled: a pool waits for the sources that feed it, and for no other.
func TestUnsettled(t *testing.T) {
	worker := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	worker.Spec.MachineConfigSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.RoleLabel: "worker"},
	}
	for sentence, c := range map[string]struct {
		applied, applying, live string
		want                    string
	}{
		"nothing is applied, and nothing is there":                           {},
		"what is there is what was applied":                                  {applied: "MachineConfig/a 1 worker", live: "MachineConfig/a 1 worker"},
		"another content":                                                    {applied: "MachineConfig/a 1 worker", live: "MachineConfig/a 2 worker", want: "GitSource config: MachineConfig a is not as main@sha1:1 has it"},
		"an object is missing":                                               {applied: "MachineConfig/a 1 worker", want: "MachineConfig a is not as"},
		"one object too many":                                                {live: "MachineConfig/a 1 worker", want: "GitSource config: it has not applied a commit yet, and MachineConfig a has its label"},
		"all as it was applied, and a revision is about to be written":       {applied: "MachineConfig/a 1 worker", applying: "MachineConfig/a 2 worker", live: "MachineConfig/a 1 worker", want: "GitSource config: main@sha1:2 is being applied"},
		"all as the next revision has it, which is not recorded as applied":  {applied: "MachineConfig/a 1 worker", applying: "MachineConfig/a 2 worker", live: "MachineConfig/a 2 worker", want: "main@sha1:2 is being applied"},
		"half a revision of another pool":                                    {applied: "MachineConfig/a 1 master", live: "MachineConfig/a 2 master"},
		"half a revision of another pool that will feed this one":            {applied: "MachineConfig/a 1 master", applying: "MachineConfig/a 1 worker", live: "MachineConfig/a 1 master", want: "is being applied"},
		"the pool itself was edited":                                         {applied: "MachineConfigPool/worker 1", live: "MachineConfigPool/worker", want: "MachineConfigPool worker is not as"},
		"another pool was edited":                                            {applied: "MachineConfigPool/infra 1", live: "MachineConfigPool/infra"},
		"a rollout policy was edited: it may select any pool":                {applied: "RolloutPolicy/careful 1", live: "RolloutPolicy/careful", want: "RolloutPolicy careful is not as"},
		"the disruption policy was deleted":                                  {applied: "MachineConfiguration/cluster 1", want: "MachineConfiguration cluster is not as"},
		"a drift policy of a source that feeds other pools has no say in it": {applied: "DriftPolicy/d 1\nMachineConfig/a 1 master", live: "MachineConfig/a 1 master"},
		"a drift policy of a source that feeds the pool belongs to its revision": {
			applied: "DriftPolicy/d 1\nMachineConfig/a 1 worker", live: "MachineConfig/a 1 worker",
			want: "DriftPolicy d is not as",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			src := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
			src.Status.Inventory = inventory(c.applied)
			if c.applied != "" {
				src.Status.AppliedRevision = "main@sha1:1"
			}
			if c.applying != "" {
				src.Status.Applying = &v1alpha1.ApplyingRevision{
					Revision:  "main@sha1:2",
					Inventory: inventory(c.applying),
				}
			}
			got, err := revision.Unsettled(worker, []revision.State{{Source: src, Live: inventory(c.live)}})
			if err != nil {
				t.Fatal(err)
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("the pool waits for %q, want %q", got, c.want)
			}
			early, err := revision.Applying(worker, []v1alpha1.GitSource{*src})
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Contains(got, "is being applied"); want != (early != "") || want && early != got {
				t.Errorf("without the objects the pool waits for %q, with them for %q", early, got)
			}
		})
	}
}

// TestMoving: no node is assigned a config while the pools of any source are not those of one whole revision.
func TestMoving(t *testing.T) {
	for sentence, c := range map[string]struct {
		applied, applying, live string
		want                    string
	}{
		"all is as it was applied":                      {applied: "MachineConfigPool/infra 1", live: "MachineConfigPool/infra 1"},
		"a MachineConfig was edited":                    {applied: "MachineConfigPool/infra 1\nMachineConfig/a 1 worker", live: "MachineConfigPool/infra 1\nMachineConfig/a 2 worker"},
		"a revision with the same pools is applied":     {applied: "MachineConfigPool/infra 1", applying: "MachineConfigPool/infra 1\nMachineConfig/a 1 worker", live: "MachineConfigPool/infra 1"},
		"a pool was edited":                             {applied: "MachineConfigPool/infra 1", live: "MachineConfigPool/infra", want: "MachineConfigPool infra"},
		"a pool was deleted":                            {applied: "MachineConfigPool/infra 1", want: "MachineConfigPool infra"},
		"a pool will change":                            {applied: "MachineConfigPool/infra 1", applying: "MachineConfigPool/infra 2", live: "MachineConfigPool/infra 1", want: "MachineConfigPool infra"},
		"a pool has changed, and that is not yet known": {applied: "MachineConfigPool/infra 1", applying: "MachineConfigPool/infra 2", live: "MachineConfigPool/infra 2", want: "MachineConfigPool infra"},
		"a pool will go":                                {applied: "MachineConfigPool/infra 1", applying: "MachineConfig/a 1 worker", live: "MachineConfigPool/infra 1", want: "MachineConfigPool infra"},
	} {
		t.Run(sentence, func(t *testing.T) {
			src := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
			src.Status.Inventory = inventory(c.applied)
			if c.applying != "" {
				src.Status.Applying = &v1alpha1.ApplyingRevision{
					Revision:  "main@sha1:2",
					Inventory: inventory(c.applying),
				}
			}
			got := revision.Moving([]revision.State{{Source: src, Live: inventory(c.live)}})
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("nodes wait for %q, want %q", got, c.want)
			}
		})
	}
}

// TestSelect: a repository's MachineConfig is selected by its role alone, whatever labels somebody adds to it.
func TestSelect(t *testing.T) {
	all := []mcfgv1.MachineConfig{
		{ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: map[string]string{v1alpha1.RoleLabel: "worker", v1alpha1.SourceLabel: "config", "gpu": ""}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{v1alpha1.RoleLabel: "worker", "gpu": ""}}},
	}
	for selects, want := range map[string]string{"gpu": "theirs", v1alpha1.RoleLabel: "ours theirs"} {
		pool := &mcfgv1.MachineConfigPool{}
		pool.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: selects, Operator: metav1.LabelSelectorOpExists},
		}}
		selector, err := revision.Selector(pool)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, mc := range revision.Select(selector, all) {
			names = append(names, mc.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("a selector of label %s takes %q, want %q", selects, got, want)
		}
	}
	if selector, err := revision.Selector(&mcfgv1.MachineConfigPool{}); err != nil ||
		len(revision.Select(selector, all)) > 0 {
		t.Errorf("a pool without a selector takes something: %v", err)
	}
}
