package revisions

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/fstest"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// digit is one choice of a tree: its name in stories, and how many values it has. Value 0 is the simplest.
type digit struct {
	name   string
	values int
}

// The digits of the trees of each repository.
var digits = [2][]digit{
	{{"motd", 3}, {"limits", 3}, {"gpu", 6}, {"driver", 3}, {"policy", 4}, {"flaw", flaws}},
	{{"infra", 4}, {"agent", 3}, {"extra", 3}, {"more", 2}, {"policy", 2}, {"flaw", flaws}},
}

// Flaws of a tree.
const (
	sound = iota
	// broken: the transpiler refuses it.
	brokenTree
	// dryPolicy and dryConfig: the API server refuses an object in a dry run.
	dryPolicy
	dryConfig
	// latePolicy, lateConfig and lateDrift: the API server refuses an object only when it is written.
	latePolicy
	lateConfig
	lateDrift
	flaws
)

// value is a digit of a tree.
func value(repo, tree int, name string) int {
	for _, d := range digits[repo] {
		if d.name == name {
			return tree % d.values
		}
		tree /= d.values
	}
	return 0
}

// with is a tree with another value of the digit at a place.
func with(repo, tree, at, v int) int {
	unit := 1
	for _, d := range digits[repo][:at] {
		unit *= d.values
	}
	n := digits[repo][at].values
	return tree + (v%n-tree/unit%n)*unit
}

// describeTree names the digits that are not 0.
func describeTree(repo, tree int) string {
	var out []string
	for _, d := range digits[repo] {
		if v := value(repo, tree, d.name); v != 0 {
			out = append(out, fmt.Sprintf("%s %d", d.name, v))
		}
	}
	if len(out) == 0 {
		return "the simplest tree"
	}
	return strings.Join(out, ", ")
}

// poolFile is a pool of cluster/.
func poolFile(name, selects, label string) string {
	return fmt.Sprintf(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: %s
spec:
  machineConfigSelector:
    matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: [%s]}]
  nodeSelector:
    matchLabels: {node-role.kubernetes.io/%s: ""}
`, name, selects, label)
}

// document is a Butane document with one file.
func document(name string, content int) string {
	return fmt.Sprintf("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/%s\n      mode: 0644\n"+
		"      contents:\n        inline: \"%d\"\n", name, content)
}

func rolloutPolicy(name, pools string, most int) string {
	return fmt.Sprintf("apiVersion: bunsen.dev/v1alpha1\nkind: RolloutPolicy\nmetadata:\n  name: %s\nspec:\n"+
		"  pools: [%s]\n  maxUnavailable: %d\n", name, pools, most)
}

const disruptionPolicy = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  nodeDisruptionPolicy:
    files:
      - path: /etc/motd
        actions: [{type: None}]
`

// customPools of the trees: what a value of the digit gpu or infra stands for.
var customPools = [2][]struct{ name, selects, label string }{
	{{}, {"gpu", "worker, gpu", "gpu"}, {"gpu", "gpu", "gpu"}, {"gpu", "worker, gpu", "accelerator"}, {"accel", "worker, accel", "gpu"}, {"gpu", "worker, gpu, infra", "gpu"}},
	{{}, {"infra", "worker, infra", "infra"}, {"infra", "infra", "infra"}, {"infra", "infra", "gpu"}},
}

// files of a tree.
func files(repo, tree int) fstest.MapFS {
	out := fstest.MapFS{}
	add := func(is int, path, text string) {
		if is > 0 {
			out[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		}
	}
	v := func(name string) int { return value(repo, tree, name) }
	custom := customPools[repo][v([]string{"gpu", "infra"}[repo])]
	add(len(custom.name), "cluster/"+custom.name+".yaml", poolFile(custom.name, custom.selects, custom.label))
	if repo == 0 {
		add(1, "pools/worker/10-motd.bu", document("motd", v("motd")))
		add(v("limits"), "pools/worker/20-limits.bu", document("limits", v("limits")))
		if custom.name != "" {
			add(v("driver"), "pools/"+custom.name+"/30-driver.bu", document("driver", v("driver")))
		}
		add(v("policy")&1, "cluster/careful.yaml", rolloutPolicy("careful", "worker", 1+v("policy")/2))
		add(v("policy")&2, "cluster/cluster.yaml", disruptionPolicy)
	} else {
		add(1, "pools/master/70-base.bu", document("base", 0))
		if custom.name != "" {
			add(v("agent"), "pools/infra/40-agent.bu", document("agent", v("agent")))
		}
		add(v("extra"), "pools/worker/50-extra.bu", document("extra", v("extra")))
		add(v("more"), "pools/gpu/60-more.bu", document("more", v("more")))
		add(v("policy"), "cluster/infra-policy.yaml", rolloutPolicy("infra", "infra", 1))
	}
	role := []string{"worker", "infra"}[repo]
	switch name := fmt.Sprintf("flaw-%d", repo); v("flaw") {
	case brokenTree:
		add(1, "pools/worker/99-broken.bu", "variant: fcos\nversion: 1.6.0\nstorage: [\n")
	case dryPolicy, latePolicy:
		add(1, "cluster/flaw.yaml", rolloutPolicy(name+refusal(v("flaw")), role, 1))
	case dryConfig, lateConfig:
		add(1, "pools/worker/90-"+name+refusal(v("flaw"))+".bu", document("flaw", repo))
	case lateDrift:
		add(1, "cluster/flaw.yaml", "apiVersion: bunsen.dev/v1alpha1\nkind: DriftPolicy\nmetadata:\n  name: "+name+
			refusal(lateDrift)+"\nspec:\n  rules: [{path: /etc/motd, action: Report}]\n")
	}
	return out
}

// refusal marks the name of an object that the API server refuses.
func refusal(flaw int) string {
	switch flaw {
	case dryPolicy, dryConfig:
		return "-never"
	}
	return "-late"
}

// isRefused reports whether the API server refuses to write an object of this name.
func isRefused(name string, dryRun bool) bool {
	return strings.HasSuffix(name, "-never") || !dryRun && strings.HasSuffix(name, "-late")
}

// built is what the real transpiler makes of a tree.
type built struct {
	tree source.Tree
	// transpiler knows this tree.
	transpiler *transpile.Transpiler
	// configs by name, and pools by name; none where the tree is broken.
	configs map[string]config
	pools   map[string]*mcfgv1.MachineConfigPool
	// needs are the pools that have documents.
	needs []string
	err   error
}

// config is a fragment as an inventory has it.
type config struct{ role, digest string }

// trees has every tree that was built, for all histories: builtKey → func() *built.
var trees sync.Map

type builtKey struct{ repo, tree int }

// build transpiles a tree, once.
func build(repo, tree int) *built {
	once, _ := trees.LoadOrStore(builtKey{repo, tree}, sync.OnceValue(func() *built { return transpiled(repo, tree) }))
	return once.(func() *built)()
}

func transpiled(repo, tree int) *built {
	b := &built{
		transpiler: &transpile.Transpiler{}, configs: map[string]config{},
		pools: map[string]*mcfgv1.MachineConfigPool{},
	}
	b.tree = source.Tree{FS: files(repo, tree), Digest: fmt.Sprintf("sha256:%d-%d", repo, tree)}
	res := b.transpiler.Fragments(b.tree)
	if res.Report.Fatal() {
		b.err = fmt.Errorf("%v", res.Report)
		return b
	}
	b.needs = res.Pools
	for _, f := range res.Fragments {
		digest, err := revision.Digest(f.MachineConfig)
		if err != nil {
			b.err = err
			return b
		}
		b.configs[f.Name] = config{f.MachineConfig.Labels[v1alpha1.RoleLabel], digest}
	}
	for _, o := range res.Cluster {
		if o.Object.GetKind() != revision.KindMachineConfigPool {
			continue
		}
		p := &mcfgv1.MachineConfigPool{}
		if b.err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, p); b.err != nil {
			return b
		}
		b.pools[p.Name] = p
	}
	slices.Sort(b.needs)
	return b
}
