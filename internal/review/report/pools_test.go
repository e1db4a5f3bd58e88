package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/review"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func poolOf(name, label, most string) mcfgv1.MachineConfigPool {
	p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if label != "" {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}
	}
	if most != "" {
		m := intstr.Parse(most)
		p.Spec.MaxUnavailable = &m
	}
	return p
}

func TestWhatChangesInPoolsBesideTheirConfigs(t *testing.T) {
	const moves = "; a node that it gains or loses takes another config, which may reboot it"
	for sentence, c := range map[string]struct {
		base, head []mcfgv1.MachineConfigPool
		want       []string
	}{
		"nothing":                    {[]mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "")}, []mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "1")}, nil},
		"other nodes":                {[]mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "")}, []mcfgv1.MachineConfigPool{poolOf("gpu", "fast", "")}, []string{"gpu: the nodes that it takes: gpu= → fast=" + moves}},
		"more at once":               {[]mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "1")}, []mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "50%")}, []string{"gpu: nodes away at once: 1 → 50%"}},
		"a pool that comes":          {nil, []mcfgv1.MachineConfigPool{poolOf("gpu", "gpu", "3")}, nil},
		"a standard pool, let go of": {[]mcfgv1.MachineConfigPool{poolOf("worker", "mine", "")}, nil, []string{"worker: the nodes that it takes: mine= → not declared here" + moves}},
	} {
		if got := review.Compare(review.Side{Declared: c.base}, review.Side{Declared: c.head}).
			MachineConfigPools; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q\nwant %q", sentence, got, c.want)
		}
	}
}

func TestOtherNodesInAPoolAreSaidEverywhere(t *testing.T) {
	c := review.Comparison{
		Version: "1", Base: "a", Head: "b", ClusterChanges: review.ClusterChanges{
			MovesNodes:         true,
			MachineConfigPools: []string{"gpu: the nodes that it takes: gpu= → <b>@everyone</b>="},
		},
		Pools: []review.PoolChange{
			{Pool: "gpu", From: "rendered-gpu-1", To: "rendered-gpu-1", Disruption: "none"},
		},
	}
	if !c.Changed() {
		t.Error("it counts as no change")
	}
	for where, text := range map[string]string{
		"text": Text(c, Style{}), "Markdown": Markdown(c, MarkdownOptions{}),
		"summary": Summary(c),
	} {
		if strings.Contains(text, "nothing will be rolled out") ||
			!strings.Contains(text, "nodes may take other configs") {
			t.Errorf("%s:\n%s", where, text)
		}
	}
	if text := Markdown(c, MarkdownOptions{}); strings.Contains(text, "<b>") || strings.Contains(text, "@everyone") {
		t.Error(text)
	}
}

func TestThatMoreNodesMayBeAwayMovesNone(t *testing.T) {
	c := review.Comparison{
		Version: "1", Base: "a", Head: "b",
		ClusterChanges: review.ClusterChanges{MachineConfigPools: []string{"gpu: nodes away at once: 1 → 50%"}},
		Pools: []review.PoolChange{
			{Pool: "gpu", From: "rendered-gpu-1", To: "rendered-gpu-1", Disruption: "none"},
		},
	}
	for where, text := range map[string]string{
		"text": Text(c, Style{}), "Markdown": Markdown(c, MarkdownOptions{}),
		"summary": Summary(c),
	} {
		if strings.Contains(text, "other configs") || !strings.Contains(text, "away at once") {
			t.Errorf("%s:\n%s", where, text)
		}
	}
}

func TestACommentInPlaceOfAPlanCannotBeBrokenOutOf(t *testing.T) {
	const nasty = "pools/a.bu:1: ```\n</details>\u202e\x1b[31m\n" + "`````"
	for _, failing := range []Failing{HeadFails, BaseFails, AllFails} {
		for _, problem := range []string{nasty, strings.Repeat(nasty, 10_000), strings.Repeat("`", 100), ""} {
			text := Trouble(failing, problem, MarkdownOptions{Key: "prod"})
			head, rest, _ := strings.Cut(text, "\n\n"+string(failing)+"\n\n")
			fence, inside, _ := strings.Cut(rest, "\n")
			if head != "<!-- bunsen:plan:v1:prod -->\n### OS config plan · `prod`" || strings.Trim(fence, "`~") != "" ||
				len(fence) < 3 {
				t.Fatalf("%.200s", text)
			}
			if closing := strings.Index(inside, fence); closing+len(fence)+1 != len(inside) {
				t.Errorf("the fence %s ends at %d of %d", fence, closing, len(inside))
			}
			if strings.ContainsAny(text, "\u202e\x1b") || len(text) > DefaultLimit {
				t.Errorf("%d bytes, control characters: %v", len(text), strings.ContainsAny(text, "\u202e\x1b"))
			}
		}
	}
}

// TestAPoolWithOwnConfigsIsOneRollout: each entry says which of its nodes do not exist, and the pool has a sum.
func TestAPoolWithOwnConfigsIsOneRollout(t *testing.T) {
	entry := func(pool, to string, nodes ...string) review.PoolChange {
		return review.PoolChange{
			Pool: pool, From: "rendered-worker-1", To: to, Disruption: "reboot",
			Items:   []review.Item{{Kind: "file", Path: "/etc/a", Change: "changed", Why: to}},
			Remarks: review.Remarks{Nodes: nodes},
		}
	}
	c := review.Comparison{Version: "1", Pools: []review.PoolChange{
		entry("worker", "rendered-worker-2"),
		entry("worker (nodes n1, n8)", "rendered-worker-3", "n1", "n8"),
		entry("worker (node n9)", "rendered-worker-4", "n9"),
	}}.WithFacts(review.Facts{Pools: map[string]review.PoolFacts{
		"worker": {Nodes: 3, Names: []string{"n1", "n2", "n3"}},
	}})
	text, table := Text(c, Style{}), Markdown(c, MarkdownOptions{})
	for _, want := range []string{
		"pool worker: rendered-worker-1 → rendered-worker-2\n",
		"pool worker (nodes n1, n8): each node its own config\n",
		", 2 nodes, 2 reboots, 5 min – 1 h\n", ", 1 node, 1 reboot, 2–30 min; n8 is not in the pool\n",
		"worker (node n9): 1 change; n9 is not in the pool, so nothing reboots\n",
		"worker in all: 3 nodes, 3 reboots, 5 min – 1.5 h\n", " in 1 pool.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	for _, want := range []string{
		"| `worker (nodes n1, n8)` | each its own | ~1 |", "| `worker (node n9)` | `1` → `4` | ~1 |",
		"| `worker` in all | | | | | | 3 | **3** | 5 min – 1.5 h |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if got := Summary(c); !strings.Contains(got, " in 1 pool: ") {
		t.Errorf("the summary counts entries: %s", got)
	}
}
