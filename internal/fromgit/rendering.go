package fromgit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rendering has the rendered configs of one commit. A Rendering is shared: do not change it.
type Rendering struct {
	// Commit is the commit that was rendered.
	Commit v1alpha1.CommitInfo
	// Pools has the rendered config of each pool by name.
	Pools map[string]*mcfgv1.MachineConfig
	// own has the pools whose nodes have configs of their own, by pool.
	own map[string]review.PoolRendering
	// Warnings are the warnings about the commit's documents, such as `file:line:col: warning: …`.
	Warnings []string
	// largeFile finds a file of the content store that a config of the commit names.
	largeFile func(hash string) (machineconfig.LargeFile, bool)
}

// BadCommit is the error for a commit with problems. Such a commit is not applied.
type BadCommit struct {
	// Commit is the commit with problems.
	Commit v1alpha1.CommitInfo
	// Problems lists all problems, as `file:line:col: error: …` if the position is known.
	Problems []string
}

// Error returns one line for each problem, and a last line for the commit.
func (b *BadCommit) Error() string {
	return fmt.Sprintf("%s\nin %s %q by %s; the commit is not applied", strings.Join(b.Problems, "\n"),
		b.Commit.Revision, b.Commit.Subject, b.Commit.Author)
}

// fetch reads a commit's files, from the disk if it has them, and renders them.
func (r *Repository) fetch(ctx context.Context, from Remote, picked source.Picked) (Rendering, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tree, err := from.Tree(limited, picked)
	if err != nil {
		return Rendering{}, r.withCredentials(err)
	}
	return r.render(ctx, tree)
}

// render renders a tree as the controllers do.
func (r *Repository) render(ctx context.Context, tree source.Tree) (Rendering, error) {
	c := tree.Commit
	out := Rendering{
		Pools: map[string]*mcfgv1.MachineConfig{}, own: map[string]review.PoolRendering{},
		Commit: v1alpha1.CommitInfo{
			Revision: c.Revision().String(), Subject: c.Subject, Author: c.Author, Time: metav1.NewTime(c.Time),
			VerifiedBy: c.Signer,
		},
	}
	res, rendered, err := r.renderings.Render(tree, ctx.Err)
	if err != nil {
		return Rendering{}, fmt.Errorf("rendering %s: %w", c.Revision().Short(), err)
	}
	problems := problemsOf(res, rendered)
	for _, p := range rendered.Pools {
		if len(r.config.Pools) == 0 || slices.Contains(r.config.Pools, p.Rendered.Pool) {
			out.Pools[p.Rendered.Pool] = r.object(p, out.Commit)
			out.own[p.Rendered.Pool] = p
		}
	}
	if len(problems) == 0 {
		problems = missingPools(r.config.Pools, out, rendered)
	}
	if len(problems) > 0 {
		return Rendering{}, fault.NewStalled(v1alpha1.ReasonTranspileFailed, &BadCommit{out.Commit, problems})
	}
	out.largeFile = largeFiles(res, rendered.Pools)
	for _, e := range res.Report {
		out.Warnings = append(out.Warnings, e.String())
	}
	return out, nil
}

// largeFiles returns a function that finds a file of the content store that a config of a commit names. It merges the
// configs of single nodes only if no config of a pool names the file.
func largeFiles(res transpile.Result, pools []review.PoolRendering) func(hash string) (machineconfig.LargeFile, bool) {
	ofPools := map[string]machineconfig.LargeFile{}
	for _, f := range transpile.Contents(res.Fragments) {
		ofPools[f.Hash] = f
	}
	for _, p := range pools {
		for _, f := range p.Rendered.Contents {
			ofPools[f.Hash] = f
		}
	}
	ofNodes := sync.OnceValue(func() map[string]machineconfig.LargeFile {
		all := map[string]machineconfig.LargeFile{}
		for _, p := range pools {
			for node := range p.Rendered.Nodes.Nodes {
				own, err := p.Rendered.Node(node)
				if err != nil {
					continue // This line is unreachable, because the config was merged for its name before.
				}
				for _, f := range own.Contents {
					all[f.Hash] = f
				}
			}
		}
		return all
	})
	return func(hash string) (machineconfig.LargeFile, bool) {
		if f, ok := ofPools[hash]; ok {
			return f, true
		}
		f, ok := ofNodes()[hash]
		return f, ok
	}
}

// problemsOf lists the errors of a tree and of its pools.
func problemsOf(res transpile.Result, rendered review.Rendering) (out []string) {
	for _, e := range res.Report {
		if e.Severity == transpile.Fatal {
			out = append(out, e.String())
		}
	}
	if rendered.Err != nil {
		out = append(out, strings.Split(rendered.Err.Error(), "\n")...)
	}
	return out
}

// missingPools lists the wanted pools that the commit does not have. If the commit has no pool at all, missingPools
// returns one problem that says so.
func missingPools(wanted []string, got Rendering, all review.Rendering) (out []string) {
	var has []string
	for _, p := range all.Pools {
		has = append(has, p.Rendered.Pool)
	}
	for _, pool := range wanted {
		if got.Pools[pool] == nil {
			out = append(out, fmt.Sprintf("pools/%s: the repository does not have this pool, which is to be served; "+
				"it has: %s", pool, strings.Join(has, ", ")))
		}
	}
	if len(got.Pools) == 0 && len(out) == 0 {
		out = append(out, "pools: the repository has no documents for any pool: push a document to pools/worker/")
	}
	return out
}

// object returns a rendered config as the controllers would create it, without the data of a cluster.
func (r *Repository) object(p review.PoolRendering, c v1alpha1.CommitInfo) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Rendered.Name},
		Spec:       p.Rendered.Spec,
	}
	mc.Annotations = map[string]string{
		v1alpha1.GeneratedByAnnotation:   r.config.Version,
		v1alpha1.RendererAnnotation:      r.config.Version,
		v1alpha1.RepositoryAnnotation:    r.url,
		v1alpha1.RevisionAnnotation:      c.Revision,
		v1alpha1.CommitAuthorAnnotation:  c.Author,
		v1alpha1.CommitSubjectAnnotation: c.Subject,
		v1alpha1.CommitTimeAnnotation:    c.Time.UTC().Format(time.RFC3339),
	}
	if nodes := p.Rendered.Nodes.String(); nodes != "" {
		mc.Annotations[v1alpha1.NodeConfigsAnnotation] = nodes
	}
	if len(p.Secrets) > 0 {
		mc.Annotations[v1alpha1.SecretPathsAnnotation] = secretmask.Join(p.Secrets)
	}
	if c.VerifiedBy != "" {
		mc.Annotations[v1alpha1.VerifiedByAnnotation] = c.VerifiedBy
	}
	return mc
}

// CheckName returns an error unless the name of a rendered config is rendered-<pool>-<hash of its content>.
func CheckName(pool string, mc *mcfgv1.MachineConfig) error {
	want, err := render.Name(pool, mc.Spec)
	if err != nil {
		return err
	}
	if err := machineconfig.CheckName(pool, mc, mc.Spec); err != nil {
		return fmt.Errorf("the name of %s does not match its content, which has the name %s: a user edited the file, "+
			"or the file is incomplete. Run `bunsen build` again", mc.Name, want)
	}
	return nil
}
