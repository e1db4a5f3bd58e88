package repository

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/history"
	"github.com/bunsen-os/bunsen/transpile"
)

// DiffOptions has the options of the commands diff and comment.
type DiffOptions struct {
	At Repository
	// replaces the MachineConfiguration in head's cluster/
	policyFile string
	// facts about pools, such as `pool=40`
	nodes []string
	// Running: the base is the configs that run in a cluster. If both sides are named, only its nodes count.
	Running bool
	counted bool
	cluster kube.Target
	// the GitSource that follows the repository, if the cluster has several
	source string
	// Decrypt, if set, decrypts files of SOPS for the user who reads the comparison.
	Decrypt func(format string, body []byte) ([]byte, error)
	// the cluster's images
	defaults render.Defaults
	cached   Cached
}

// KeyHelp explains the flag --key.
const KeyHelp = "name of the cluster or environment, for Markdown: it heads the comment, and keeps several " +
	"comments apart"

// AddFlags adds the flags of diff and comment.
func (c *DiffOptions) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.At.Repo, "repo", ".", "a directory in the git repository")
	f.StringVar(&c.At.Path, "path", "", "the folder below it that holds pools/")
	f.StringVar(&c.policyFile, "policy", "", "a MachineConfiguration to judge by, instead of the one in cluster/")
	f.StringSliceVar(&c.nodes, "nodes", nil, "nodes of a pool, and how many may be away at once, else as the "+
		"policy or the pool in cluster/ says: worker=40/4 (repeatable)")
	f.BoolVar(&c.Running, "cluster", false, "compare with what the cluster's nodes should run now; if BASE and HEAD "+
		"are named, only count the nodes of the cluster")
	f.StringVar(&c.source, "source", "", "with --cluster: the GitSource that follows this repository, where there "+
		"are several; - for none of them")
	f.StringVar(&c.defaults.OSImageURL, "os-image", "", "the cluster's default OS image, as the controller's flag of "+
		"that name")
	f.StringVar(&c.defaults.ExtensionsImage, "extensions-image", "", "the cluster's default extensions image")
	c.cached.AddFlag(f)
	f.BoolVar(&c.defaults.LargeFiles, cli.LargeFilesFlag, false, cli.LargeFilesUsage)
	c.cluster.AddFlags(cmd)
}

// Arguments returns the two sides that the arguments name.
func (c *DiffOptions) Arguments(ctx context.Context, args []string) (base, head string, err error) {
	base, head = "HEAD", c.At.Repo
	if c.Running {
		if c.counted = len(args) > 1; !c.counted {
			args = append([]string{""}, args...)
		}
	}
	if one, other, ok := strings.Cut(strings.Join(args, " "), "..."); ok && len(args) == 1 && !c.At.Directory(args[0]) {
		head = cmp.Or(other, "HEAD")
		base, err = history.MergeBase(ctx, c.At.Repo, cmp.Or(one, "HEAD"), head)
		return base, head, err
	}
	if len(args) > 0 {
		base = args[0]
	}
	if len(args) > 1 {
		head = args[1]
	}
	return base, head, nil
}

// Compare renders both sides. The disruption policy is head's, because it applies when head is rolled out.
func (c DiffOptions) Compare(ctx context.Context, base, head string) (review.Comparison, error) {
	facts, err := factsOf(c.nodes)
	if err = errors.Join(err, c.defaults.Check()); err != nil {
		return review.Comparison{}, cli.Invalid(err)
	}
	memory := &review.Renderings{Defaults: c.defaults}
	defer c.cached.Use(memory)()
	memory.AllowLargeFiles(c.defaults.LargeFiles)
	var from, to side
	var failed RenderErrors
	if !c.Running || c.counted {
		from, failed.Base = c.readBase(ctx, memory, base)
	}
	to, failed.Head = c.read(ctx, memory, head)
	if failed.Base != nil {
		failed.Base = fmt.Errorf("rendering %s: %w", base, failed.Base)
	}
	if errors.Is(failed.Base, ErrNotValid) {
		failed.Base = fmt.Errorf("%w\nname an earlier base, such as the last commit that was applied", failed.Base)
	}
	if failed.Head != nil {
		failed.Head = fmt.Errorf("rendering %s: %w", head, failed.Head)
	}
	if failed != (RenderErrors{}) {
		return review.Comparison{}, &failed
	}
	switch {
	case c.Running && c.counted:
		r, err := c.readCluster(ctx)
		if err != nil {
			return review.Comparison{}, err
		}
		r.pools = slices.DeleteFunc(r.pools, func(p mcfgv1.MachineConfigPool) bool {
			_, was := from.Pools[p.Name]
			_, is := to.Pools[p.Name]
			return !was && !is
		})
		if err := r.addFacts(facts, to.rolloutPolicies()); err != nil {
			return review.Comparison{}, err
		}
	case c.Running:
		if from, err = c.fromCluster(ctx, memory, &to, facts); err != nil {
			return review.Comparison{}, err
		}
	}
	return c.evaluate(from, to, facts)
}

// RenderErrors says which sides could not be rendered; the error of the other side is nil.
type RenderErrors struct{ Base, Head error }

// Error names each side.
func (u *RenderErrors) Error() string { return errors.Join(u.Base, u.Head).Error() }

// Unwrap returns the errors of the sides.
func (u *RenderErrors) Unwrap() []error { return []error{u.Base, u.Head} }

type side struct {
	review.Side
	result transpile.Result
}

// rolloutPolicies are those in cluster/.
func (s side) rolloutPolicies() []v1alpha1.RolloutPolicy {
	var out []v1alpha1.RolloutPolicy
	for _, o := range s.result.Cluster {
		var p v1alpha1.RolloutPolicy
		if o.Object.GetKind() == rolloutPolicy.Kind &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p) == nil {
			out = append(out, p)
		}
	}
	return out
}

// readBase reads a base also if its only errors are images without a digest, so that there is a review of the commit
// that adds the digests.
func (c DiffOptions) readBase(ctx context.Context, memory *review.Renderings, name string) (side, error) {
	out, err := c.read(ctx, memory, name)
	if !errors.Is(err, ErrNotValid) || slices.ContainsFunc(out.result.Report, func(e transpile.Entry) bool {
		return e.Severity == transpile.Fatal && e.Rule != transpile.RuleImageDigest
	}) {
		return out, err
	}
	memory = &review.Renderings{Defaults: memory.Defaults, Transpiler: transpile.Transpiler{
		ImagesByTag: true, Store: memory.Transpiler.Store,
	}}
	memory.AllowLargeFiles(memory.Defaults.LargeFiles)
	return c.read(ctx, memory, name)
}

// read renders a directory or a revision.
func (c DiffOptions) read(ctx context.Context, memory *review.Renderings, name string) (side, error) {
	tree, done, err := c.At.Open(ctx, name)
	defer done()
	if err != nil {
		return side{}, cli.Invalid(err)
	}
	out := side{}
	var rendering review.Rendering
	if out.result, rendering, err = memory.Render(tree, ctx.Err); err != nil {
		return side{}, cli.Invalid(err)
	}
	if err := Checked(out.result, rendering); err != nil {
		return out, err
	}
	out.Side = rendering.Side(name)
	out.Folder, out.Entries, out.Encryption = c.At.Folder(), tree.Entries, review.ReadEncryption(tree.FS)
	if out.Commit, err = c.commit(ctx, tree); err != nil {
		return side{}, err
	}
	return out, nil
}

// commit describes a tree's commit for a review; nil for a directory.
func (c DiffOptions) commit(ctx context.Context, tree source.Tree) (*review.Commit, error) {
	if tree.Commit.Hash == "" {
		return nil, nil
	}
	commits, err := history.Open(ctx, git.LocalRevision{Repository: c.At.Repo, Revision: tree.Commit.Hash})
	if err != nil {
		return nil, cli.Invalid(err)
	}
	parents, err := commits.Parents(ctx)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	return &review.Commit{
		Hash: tree.Commit.Hash, Subject: tree.Commit.Subject, Author: tree.Commit.Author,
		Time: tree.Commit.Time.UTC().Format(time.RFC3339), Parents: parents,
	}, nil
}

// factsOf reads `pool=nodes` and `pool=nodes/at-once`, such as worker=40 and worker=40/4. Without at-once, the limit is
// 0.
func factsOf(flags []string) (review.Facts, error) {
	facts := review.Facts{Pools: map[string]review.PoolFacts{}}
	var errs []error
	for _, f := range flags {
		pool, numbers, ok := strings.Cut(f, "=")
		count, atOnce, limited := strings.Cut(numbers, "/")
		nodes, err := strconv.Atoi(count)
		most := 0
		if limited && err == nil {
			most, err = strconv.Atoi(atOnce)
		}
		if !ok || pool == "" || err != nil || nodes < 0 || limited && most < 1 {
			errs = append(errs, fmt.Errorf("--nodes %q: want POOL=NODES or POOL=NODES/AT-ONCE, such as worker=40 or "+
				"worker=40/4", f))
			continue
		}
		facts.Pools[pool] = review.PoolFacts{Nodes: nodes, MaxUnavailable: most}
	}
	return facts, errors.Join(errs...)
}

func (c DiffOptions) evaluate(from, to side, facts review.Facts) (review.Comparison, error) {
	for _, pool := range slices.Sorted(maps.Keys(facts.Pools)) {
		_, was := from.Pools[pool]
		if _, is := to.Pools[pool]; !was && !is {
			return review.Comparison{}, cli.Invalid(fmt.Errorf("--nodes %s: neither side has such a pool; head has: %s",
				pool, strings.Join(slices.Sorted(maps.Keys(to.Pools)), ", ")))
		}
	}
	policies := to.rolloutPolicies()
	for name, known := range facts.Pools {
		if known.MaxUnavailable > 0 {
			continue
		}
		pool := &mcfgv1.MachineConfigPool{}
		pool.Name = name
		for i := range to.Declared {
			if to.Declared[i].Name == name {
				pool = &to.Declared[i]
			}
		}
		var err error
		if known.MaxUnavailable, err = poolstate.MaxUnavailable(name, poolstate.MostAtOnce(pool, policies),
			known.Nodes); err != nil {
			return review.Comparison{}, cli.Invalid(fmt.Errorf("reading MachineConfigPool %s: %w", name, err))
		}
		facts.Pools[name] = known
	}
	if c.policyFile != "" {
		var err error
		if to.Policy, to.Overrides, err = policyFrom(c.policyFile); err != nil {
			return review.Comparison{}, cli.Invalid(err)
		}
		to.PolicyFile = c.policyFile
		from.Policy = to.Policy // The file replaces the policy of both sides, so the policy is no change.
	}
	to.Decrypt = c.Decrypt
	return review.Compare(from.Side, to.Side).WithFacts(facts), nil
}

func policyFrom(file string) (disruption.Policy, disruption.Overrides, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return disruption.Policy{}, disruption.Overrides{}, fmt.Errorf("reading the disruption policy: %w", err)
	}
	var mc operatorv1.MachineConfiguration
	if err := yaml.UnmarshalStrict(data, &mc); err != nil {
		return disruption.Policy{}, disruption.Overrides{}, fmt.Errorf("reading the disruption policy %s: %w", file,
			err)
	}
	if mc.Kind != "MachineConfiguration" {
		return disruption.Policy{}, disruption.Overrides{},
			fmt.Errorf("reading the disruption policy %s: it is a %q, not a MachineConfiguration", file, mc.Kind)
	}
	p, err := disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	if err != nil {
		return disruption.Policy{}, disruption.Overrides{}, fmt.Errorf("reading the disruption policy %s: %w", file,
			err)
	}
	return p, disruption.OverridesOf(&mc), nil
}

// Show prints a comparison in one of the output forms.
func (c *DiffOptions) Show(w io.Writer, found review.Comparison, output, key string) error {
	text := ""
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(found); err != nil {
			return fmt.Errorf("printing the comparison: %w", err)
		}
		return nil
	case "markdown":
		text = report.Markdown(found, report.MarkdownOptions{Key: key})
	default:
		text = report.Text(found, report.Style{Colour: cli.Colour()}) + c.nodesHint(found)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("printing the comparison: %w", err)
	}
	return nil
}

// nodesHint says how to give the number of nodes of a changed pool to a comparison, if it is unknown.
func (c *DiffOptions) nodesHint(found review.Comparison) string {
	unknown := slices.ContainsFunc(found.Pools, func(p review.PoolChange) bool {
		return p.From != "" && p.To != "" && p.From != p.To && p.Rollout == nil
	})
	if !unknown || c.Running || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return ""
	}
	return "Nodes are unknown: add --cluster to count those of your cluster, or --nodes POOL=COUNT.\n"
}
