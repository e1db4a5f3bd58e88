package inspect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func hashOf(letter string) string { return strings.Repeat(letter, 8) + strings.Repeat("0", 32) }

// rollbackHistory writes entries, newest first, as `commit:config`; `commit:!` cannot be rendered, and `commit:` gave
// no config.
func rollbackHistory(entries ...string) (out []v1alpha1.HistoryEntry) {
	for _, e := range entries {
		commit, config, _ := strings.Cut(e, ":")
		h := v1alpha1.HistoryEntry{CommitInfo: v1alpha1.CommitInfo{
			Revision: "main@sha1:" + hashOf(commit),
			Subject:  "Change " + commit,
		}}
		switch config {
		case "":
		case "!":
			h.NotRendered = map[string]string{"worker": "no such image"}
		default:
			h.Pools = map[string]string{"worker": "rendered-worker-" + config}
		}
		out = append(out, h)
	}
	return out
}

// rollbackCluster is one source and one pool, which should run a config, and was last healthy with another.
func rollbackCluster(target, healthy string, entries ...string) fleet.Cluster {
	c := fleet.Cluster{
		Sources: []v1alpha1.GitSource{{
			ObjectMeta: metav1.ObjectMeta{Name: "config"},
			Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.com/os/config.git"},
			Status:     v1alpha1.GitSourceStatus{History: rollbackHistory(entries...)},
		}},
		Pools: []mcfgv1.MachineConfigPool{{ObjectMeta: metav1.ObjectMeta{
			Name:        "worker",
			Annotations: map[string]string{},
		}}},
	}
	if len(c.Sources[0].Status.History) > 0 {
		c.Sources[0].Status.AppliedRevision = c.Sources[0].Status.History[0].Revision
	}
	for _, letter := range "pqrst" {
		c.Rendered = append(c.Rendered, fleet.RenderedRow{
			Name: "rendered-worker-" + string(letter), Pool: "worker",
			Created: noon,
		})
	}
	p := &c.Pools[0]
	p.Spec.Configuration.Name, p.Status.Configuration.Name = "rendered-worker-"+target, "rendered-worker-"+healthy
	return c
}

func annotate(p *mcfgv1.MachineConfigPool, key string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	p.Annotations[key] = string(raw)
}

// TestWhichCommitsAreReverted: which commits are reverted, for each course of a pool.
func TestWhichCommitsAreReverted(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster  fleet.Cluster
		ask      inspect.RollbackRequest
		change   func(*fleet.Cluster)
		from, to string // commits, or the beginning of the error in to
	}{
		"the config before":                        {cluster: rollbackCluster("q", "q", "b:q", "a:p"), from: "b", to: "a"},
		"commits without effect":                   {cluster: rollbackCluster("q", "q", "d:q", "c:q", "b:q", "a:p"), from: "b", to: "a"},
		"commits that were replaced":               {cluster: rollbackCluster("q", "q", "d:q", "c:", "b:p", "a:p"), from: "d", to: "b"},
		"the last healthy config":                  {cluster: rollbackCluster("r", "p", "c:r", "b:q", "a:p"), from: "c", to: "a"},
		"back and forth":                           {cluster: rollbackCluster("p", "p", "d:p", "c:q", "b:p", "a:r"), from: "d", to: "a"},
		"a second rollback is not the way forward": {cluster: rollbackCluster("p", "p", "c:p", "b:q", "a:p"), to: "GitSource config remembers no earlier config of pool worker"},
		"a commit that is not rendered":            {cluster: rollbackCluster("q", "q", "c:!", "b:q", "a:p"), from: "c", to: "b"},
		"the newest commit is not read yet":        {cluster: rollbackCluster("q", "q", "c:", "b:q", "a:p"), from: "b", to: "a"},
		"a certain commit":                         {cluster: rollbackCluster("r", "r", "c:r", "b:q", "a:p"), ask: inspect.RollbackRequest{To: "aaaaaaa"}, from: "c", to: "a"},
		"a certain revision":                       {cluster: rollbackCluster("r", "r", "c:r", "b:q", "a:p"), ask: inspect.RollbackRequest{To: "main@sha1:" + hashOf("b")}, from: "c", to: "b"},
		"a commit that the history has no more":    {cluster: rollbackCluster("r", "r", "c:r"), ask: inspect.RollbackRequest{To: "0123456"}, from: "c", to: "0123456"},
		"the newest commit":                        {cluster: rollbackCluster("r", "r", "c:r", "b:q"), ask: inspect.RollbackRequest{To: "cccccccc"}, to: "--to cccccccc: pool worker has its newest config since main@sha1:cccccccc"},
		"a commit with the same config":            {cluster: rollbackCluster("r", "r", "c:r", "b:q", "a:r"), ask: inspect.RollbackRequest{To: "aaaaaaa"}, to: "--to aaaaaaa: pool worker has the config of that commit already"},
		"no commit":                                {cluster: rollbackCluster("r", "r", "c:r", "b:q"), ask: inspect.RollbackRequest{To: "HEAD~1"}, to: `--to "HEAD~1": want the hash of a commit`},
		"an option":                                {cluster: rollbackCluster("r", "r", "c:r", "b:q"), ask: inspect.RollbackRequest{To: "--exec=x"}, to: `--to "--exec=x": want the hash of a commit`},
		"nothing before":                           {cluster: rollbackCluster("q", "q", "b:q"), to: "GitSource config remembers no earlier config of pool worker that nodes did not fail. Name the commit to return to with --to"},
		"no config":                                {cluster: rollbackCluster("", "", "a:"), to: "no GitSource remembers a commit that gave pool worker a config"},
		"no pool":                                  {cluster: rollbackCluster("q", "q", "a:q"), ask: inspect.RollbackRequest{Pool: "edge"}, to: `there is no pool "edge"`},
		"another source":                           {cluster: rollbackCluster("q", "q", "a:q"), ask: inspect.RollbackRequest{Source: "other"}, to: "--source other: no GitSource of this name gave pool worker a config"},
		"a failed config is never the way back": {
			cluster: rollbackCluster("p", "p", "c:p", "b:q", "a:r"), from: "c", to: "a",
			change: func(c *fleet.Cluster) {
				annotate(&c.Pools[0], v1alpha1.RolloutHistoryAnnotation,
					[]v1alpha1.RolloutOutcome{{Config: "rendered-worker-q", Result: v1alpha1.RolloutWasHalted}})
			},
		},
		"the healthy commit is known from the pool's records": {
			cluster: rollbackCluster("r", "p", "c:r", "b:q"), from: "c", to: "a",
			change: func(c *fleet.Cluster) {
				annotate(&c.Pools[0], v1alpha1.RolloutHistoryAnnotation, []v1alpha1.RolloutOutcome{
					{Config: "rendered-worker-q", Result: v1alpha1.RolloutWasHalted},
					{Config: "rendered-worker-p", Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashOf("a")}},
				})
			},
		},
		"the source whose commit gave the config": {
			cluster: rollbackCluster("q", "q", "b:q", "a:p"), from: "d", to: "c",
			change: func(c *fleet.Cluster) {
				other := c.Sources[0].DeepCopy()
				other.Name, other.Status.History = "other", rollbackHistory("d:q", "c:p")
				c.Sources = append(c.Sources, *other)
				annotate(&c.Pools[0], v1alpha1.TargetAnnotation, v1alpha1.PoolTarget{
					Config:    "rendered-worker-q",
					Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashOf("d")},
				})
			},
		},
		"two sources": {
			cluster: rollbackCluster("q", "q", "b:q", "a:p"), to: "several GitSources feed pool worker: choose one " +
				"of config, other with --source",
			change: func(c *fleet.Cluster) {
				c.Sources = append(c.Sources, *c.Sources[0].DeepCopy())
				c.Sources[1].Name = "other"
			},
		},
		"an OCI source": {cluster: rollbackCluster("q", "q", "b:q", "a:p"), to: "GitSource config follows the OCI " +
			"artifacts of oci://registry.example.com/os", change: func(c *fleet.Cluster) {
			c.Sources[0].Spec.URL = "oci://registry.example.com/os"
		}},
		"no source": {cluster: rollbackCluster("q", "q", "b:q"), to: "pool worker: the cluster has no GitSource", change: func(c *fleet.Cluster) { c.Sources = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(&tt.cluster)
			}
			if tt.ask.Now = noon; tt.ask.Pool == "" {
				tt.ask.Pool = "worker"
			}
			got, err := inspect.NewRollback(tt.cluster, tt.ask)
			if tt.from == "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.to) {
					t.Fatalf("the error is %v, want %s", err, tt.to)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			to := strings.TrimPrefix(got.To.Revision, "main@sha1:")
			if from := strings.TrimPrefix(got.From.Revision, "main@sha1:"); !strings.HasPrefix(from, tt.from) ||
				!strings.HasPrefix(to, tt.to) {
				t.Errorf("from %s to %s, want from %s to %s", from, to, tt.from, tt.to)
			}
			want := "git revert --no-edit -m 1 $(git rev-list --first-parent " + to[:min(len(to), 8)] + ".."
			if len(got.Todo) != 2 || !strings.HasPrefix(got.Todo[1], want) {
				t.Errorf("to do is %q, want %s", got.Todo, want)
			}
		})
	}
}

// TestWhatElseKeepsNodesFromReturning: what else prevents that the nodes return.
func TestWhatElseKeepsNodesFromReturning(t *testing.T) {
	for want, change := range map[string]func(*fleet.Cluster){
		"pool/worker has a hold at main@sha1:aaaaaaaa by ada: why: after the merge, bunsen " +
			"release pool/worker lets the revert reach its nodes": func(c *fleet.Cluster) {
			c.Pools[0].Spec.Configuration.Name = "rendered-worker-p"
			c.Pools[0].Annotations[v1alpha1.HoldAnnotation],
				c.Pools[0].Annotations[v1alpha1.HeldByAnnotation] = "rendered-worker-p", "ada: why"
			c.Pools[0].Annotations[v1alpha1.HeldRevisionAnnotation] = "main@sha1:" + hashOf("a")
		},
		"pool/worker is paused by ada: freeze: the revert reaches its nodes only after bunsen resume pool/worker": func(
			c *fleet.Cluster,
		) {
			c.Pools[0].Spec.Paused, c.Pools[0].Annotations[v1alpha1.PausedByAnnotation] = true, "ada: freeze"
		},
		"GitSource config is suspended: it reads no commit until bunsen resume gitsource/config": func(c *fleet.Cluster) { c.Sources[0].Spec.Suspend = true },
		"GitSource config has seen main@sha1:cccccccc, which it has not applied; bunsen why gitsource/config": func(
			c *fleet.Cluster,
		) {
			c.Sources[0].Status.ObservedRevision = "main@sha1:" + hashOf("c")
		},
		"rendered-worker-p is no longer on the cluster; the controller renders it again, with the same name": func(c *fleet.Cluster) { c.Rendered = c.Rendered[1:] },
		"GitSource config follows the tag v1: after the merge, push a new tag on the merged commit, and set " +
			"spec.ref.tag to it": func(c *fleet.Cluster) {
			c.Sources[0].Spec.Ref.Tag = "v1"
		},
		"GitSource config follows the tags ~1.4: after the merge, push a higher tag on the merged commit": func(c *fleet.Cluster) { c.Sources[0].Spec.Ref.SemVer = "~1.4" },
		"GitSource config is pinned to a commit: after the merge, set spec.ref.commit to the merged commit": func(
			c *fleet.Cluster,
		) {
			c.Sources[0].Spec.Ref.Commit = hashOf("b")
		},
		"a commit does not undo changes through the API: MachineConfig 99-x (made through the API); bunsen why " +
			"pool/worker prints the commands": func(c *fleet.Cluster) {
			annotate(&c.Pools[0], v1alpha1.TargetAnnotation, v1alpha1.PoolTarget{
				Config: "rendered-worker-q",
				Requester: v1alpha1.Requester{
					API: []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-x", Action: v1alpha1.APICreated}},
				},
			})
		},
	} {
		c := rollbackCluster("q", "q", "b:q", "a:p")
		change(&c)
		got, err := inspect.NewRollback(c, inspect.RollbackRequest{Pool: "worker", Now: noon})
		if err != nil || !slices.Equal(got.Notes, []string{want}) {
			t.Errorf("the notes are\n%s, %v\nwant\n%s", strings.Join(got.Notes, "\n"), err, want)
		}
	}
	if got, err := inspect.NewRollback(rollbackCluster("q", "q", "b:q", "a:p"),
		inspect.RollbackRequest{Pool: "worker", Now: noon}); err != nil || len(got.Notes) > 0 {
		t.Errorf("notes without a reason: %q, %v", got.Notes, err)
	}
}

// TestARangeOfUnknownEnd: for a commit that the history does not have, no commit of the history is said to be reverted,
// because that commit may be anywhere between them.
func TestARangeOfUnknownEnd(t *testing.T) {
	for to, want := range map[string]struct {
		commits string
		note    string
	}{
		"aaaaaaa": {"Change c, Change b", ""},
		"bbbbbbb": {"Change c", ""},
		"0123456": {"", "GitSource config does not remember 0123456: only git log knows which commits are reverted"},
	} {
		got, err := inspect.NewRollback(rollbackCluster("r", "r", "c:r", "b:q", "a:p"),
			inspect.RollbackRequest{Pool: "worker", To: to, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		var subjects []string
		for _, c := range got.Commits {
			subjects = append(subjects, c.Subject)
		}
		if text := strings.Join(subjects, ", "); text != want.commits || strings.Join(got.Notes, "; ") != want.note {
			t.Errorf("--to %s: %q with the notes %q, want %+v", to, text, got.Notes, want)
		}
		if text := got.Text(); strings.Contains(text, "Reverts") != (want.commits != "") {
			t.Errorf("--to %s:\n%s", to, text)
		}
		raw, err := json.Marshal(got)
		if err != nil || strings.Contains(string(raw), `"commits":null`) {
			t.Errorf("--to %s: %s, %v", to, raw, err)
		}
	}
}
