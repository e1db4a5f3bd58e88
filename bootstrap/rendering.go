package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Rendering is what one commit renders to. It is shared: do not change it.
type Rendering struct {
	// Commit that was rendered.
	Commit v1alpha1.CommitInfo
	// Pools is the rendered config of each pool by its name.
	Pools map[string]*mcfgv1.MachineConfig
	// Warnings of the commit's documents, `file:line:col: warning: …`.
	Warnings []string
}

// BadCommit says what is wrong with a commit of which therefore nothing is taken.
type BadCommit struct {
	// Commit that is bad.
	Commit v1alpha1.CommitInfo
	// Problems are all of them, `file:line:col: error: …` where the place is known.
	Problems []string
}

// Error has one line for each problem, and a last one for the commit.
func (b *BadCommit) Error() string {
	return fmt.Sprintf("%s\nin %s %q by %s; nothing of it is taken", strings.Join(b.Problems, "\n"), b.Commit.Revision, b.Commit.Subject, b.Commit.Author)
}

// Read asks the remote now, and renders the commit that it finds. Errors are the source's faults, and *BadCommit.
func (r *Repository) Read(ctx context.Context) (Rendering, error) {
	from, _, err := r.connect()
	if err != nil {
		return Rendering{}, err
	}
	picked, err := r.pick(ctx, from)
	if err != nil {
		return Rendering{}, err
	}
	return r.fetch(ctx, from, picked)
}

// fetch gets a commit's files, from the disk where they are there, and renders them.
func (r *Repository) fetch(ctx context.Context, from Remote, picked source.Picked) (Rendering, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tree, err := from.Tree(limited, picked)
	if err != nil {
		return Rendering{}, r.reworded(err)
	}
	return r.render(ctx, tree)
}

// render does what the controllers do with a tree.
func (r *Repository) render(ctx context.Context, tree source.Tree) (Rendering, error) {
	c := tree.Commit
	out := Rendering{Pools: map[string]*mcfgv1.MachineConfig{}, Commit: v1alpha1.CommitInfo{
		Revision: c.Revision().String(), Subject: c.Subject, Author: c.Author, Time: metav1.NewTime(c.Time), VerifiedBy: c.Signer,
	}}
	res, rendered, err := r.memory.RenderUntil(tree, ctx.Err)
	if err != nil {
		return Rendering{}, fmt.Errorf("rendering %s: %w", c.Revision().Short(), err)
	}
	problems := problemsOf(res, rendered)
	for _, p := range rendered.Pools {
		if len(r.config.Pools) == 0 || slices.Contains(r.config.Pools, p.Rendered.Pool) {
			out.Pools[p.Rendered.Pool] = r.object(p, out.Commit)
		}
	}
	if len(problems) == 0 {
		problems = missing(r.config.Pools, out, rendered)
	}
	if len(problems) > 0 {
		return Rendering{}, fault.NewStalled(v1alpha1.ReasonTranspileFailed, &BadCommit{out.Commit, problems})
	}
	for _, e := range res.Report {
		out.Warnings = append(out.Warnings, e.String())
	}
	return out, nil
}

// problemsOf are the lines of what keeps a tree from rendering, as a whole or in one of its pools.
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

// missing names wanted pools that the commit does not have, and a commit that has none at all.
func missing(wanted []string, got Rendering, all review.Rendering) (out []string) {
	var has []string
	for _, p := range all.Pools {
		has = append(has, p.Rendered.Pool)
	}
	for _, pool := range wanted {
		if got.Pools[pool] == nil {
			out = append(out, fmt.Sprintf("pools/%s: no such pool, but it is one of those to serve; the repository has: %s", pool, strings.Join(has, ", ")))
		}
	}
	if len(got.Pools) == 0 && len(out) == 0 {
		out = append(out, "pools: nothing is written for any pool: push a document to pools/worker/")
	}
	return out
}

// object is a rendered config as the controllers would put it on a cluster, but for what only a cluster knows.
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
	if len(p.Secrets) > 0 {
		mc.Annotations[v1alpha1.SecretPathsAnnotation] = secret.Join(p.Secrets)
	}
	if c.VerifiedBy != "" {
		mc.Annotations[v1alpha1.VerifiedByAnnotation] = c.VerifiedBy
	}
	return mc
}

// CheckName tells whether a rendered config is what its name promises: rendered-<pool>-<hash of the content>.
func CheckName(pool string, mc *mcfgv1.MachineConfig) error {
	want, err := render.Name(pool, mc.Spec)
	if err != nil {
		return err
	}
	if want != mc.Name {
		return fmt.Errorf("the content of %s is not what the name says (it would be %s): somebody edited or cut it; write it again with `bunsen build`", mc.Name, want)
	}
	return nil
}
