package rollback

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// Options are the flags of the verb rollback.
type Options struct {
	// Repo is a directory in a clone; empty for the current one, or a temporary clone. Remote is its remote.
	Repo, Remote string
	// Base is the branch to commit on; empty for that of the GitSource.
	Base string
	// AllFiles also reverts files that do not reach the pool.
	AllFiles bool
	// Push pushes the branch, and opens a pull request if there is a token.
	Push bool
	// DryRun creates no branch.
	DryRun bool
	// Site overrides what bunsen finds out about the git host. TokenFrom is a file with its token.
	Site      forge.Target
	TokenFrom string
}

// job is the state of one rollback, from the choice of the commits to the new commit.
type job struct {
	Options
	choice   Choice
	clone    clone
	base     base
	to, from string
	sorted   Sorted
	tree     string
	files    poolFiles
	result   Result
}

// Run prepares the rollback. The target is only read. In a dry run, the returned text has the forecast.
func (o Options) Run(ctx context.Context, choice Choice, target kube.Target) (Result, string, error) {
	src := choice.Source
	clone, done, err := o.findClone(ctx, src.Spec.URL)
	defer done()
	if err != nil {
		return Result{}, "", cli.Invalid(err)
	}
	j := &job{Options: o, choice: choice, clone: clone, result: Result{
		Pool: choice.Pool, Cluster: target.Name(), Source: src.Name, Repository: source.Redact(src.Spec.URL),
		From: choice.From, To: choice.To, Notes: choice.Notes,
	}}
	for _, step := range []func(context.Context) error{j.resolve, j.selectFiles, j.listFiles} {
		if err := step(ctx); err != nil {
			return Result{}, "", cli.Invalid(err)
		}
	}
	if o.DryRun {
		text := j.forecast(ctx, target)
		return j.result, text, nil
	}
	err = j.commit(ctx)
	return j.result, "", err
}

func (j *job) resolve(ctx context.Context) (err error) {
	src, branch := j.choice.Source, j.Base
	if branch == "" && RefStep(src.Spec.Ref) == "" {
		branch = src.Spec.Ref.Branch
	}
	if j.base, err = j.clone.base(ctx, branch); err != nil {
		return err
	}
	if j.from, err = j.clone.commit(ctx, j.choice.From.Hash()); err != nil {
		return err
	}
	if j.to, err = j.clone.commit(ctx, j.choice.To.Hash()); err != nil {
		return err
	}
	switch {
	case j.to == j.from || j.clone.isAncestor(ctx, j.from, j.to):
		return fmt.Errorf("%.8s is not older than %s, which gave pool %s its newest config", j.to, j.choice.From.Text(),
			j.choice.Pool)
	case !j.clone.isAncestor(ctx, j.to, j.from):
		j.note("%.8s is not in the history of %.8s: the branch was rewritten, or the clone is shallow. bunsen "+
			"restores the files of %.8[1]s", j.to, j.from)
	}
	if !j.clone.isAncestor(ctx, j.from, j.base.commit) {
		j.note("branch %s does not have %s: it was rewritten, or that commit is on another branch", j.base.branch,
			j.choice.From.Text())
	}
	if at, err := source.ParseRevision(src.Status.AppliedRevision); err == nil && at.Hash != j.base.commit {
		j.note("branch %s is at %.8s; the cluster has applied %.8s", j.base.branch, j.base.commit, at.Hash)
	}
	j.choice.To.Revision = completed(j.choice.To, j.to)
	j.result.To = j.choice.To
	j.result.Git = Git{Branch: j.choice.Branch(), Base: j.base.branch, BaseCommit: j.base.commit}
	return nil
}

// completed returns the revision of a step with the full hash.
func completed(s Step, hash string) string {
	if _, err := source.ParseRevision(s.Revision); err == nil {
		return s.Revision
	}
	return hash
}

func (j *job) note(format string, args ...any) {
	j.result.Notes = append(j.result.Notes, fmt.Sprintf(format, args...))
}

func (j *job) selectFiles(ctx context.Context) error {
	changes, err := j.clone.changes(ctx, j.to, j.from, j.base.commit)
	if err != nil {
		return err
	}
	if err := j.clone.fetchFiles(ctx, j.to, j.from, j.base.commit); err != nil {
		return err
	}
	j.files = poolFiles{
		dir: j.clone.dir, folder: j.choice.Source.Spec.Path, pool: j.choice.Pool,
		read: map[string]bool{},
	}
	var broken []error
	for _, at := range []string{j.from, j.base.commit} {
		if _, err := j.files.rendered(ctx, at); err != nil {
			broken = append(broken, err)
		}
	}
	was, err := j.files.rendered(ctx, j.to)
	if err = errors.Join(append(broken, err)...); err != nil {
		j.note("some commits could not be rendered, so bunsen may not know all files that reach the pool: %v", err)
	}
	reaches := j.files.reaches
	if j.AllFiles {
		reaches = nil
	}
	j.sorted = Sort(changes, reaches)
	if len(j.sorted.Conflicts) > 0 {
		return j.conflicts(ctx)
	}
	for _, f := range j.sorted.Other {
		j.result.Files.Other = append(j.result.Files.Other, f.Path)
	}
	for _, f := range j.sorted.Done {
		j.result.Files.Done = append(j.result.Files.Done, f.Path)
	}
	if len(j.sorted.Revert) == 0 {
		return j.nothing()
	}
	if j.result.Commits, err = j.clone.commits(ctx, j.to, j.from, j.sorted.Revert); err != nil {
		return err
	}
	if len(j.result.Commits) == 0 { // The branches have no common history.
		j.result.Commits = []Commit{{
			Hash: j.from, Author: j.choice.From.Author,
			Subject: j.choice.From.Subject,
		}}
	}
	return j.checkResult(ctx, was)
}

// nothing says why there is no file to restore.
func (j *job) nothing() error {
	switch between := fmt.Sprintf("between %s and %s", j.choice.To.Text(), j.choice.From.Text()); {
	case len(j.sorted.Done) > 0:
		return fmt.Errorf("%w: branch %s has reverted everything that reaches pool %s %s; the cluster follows when "+
			"it applies that commit", ErrNothing, j.base.branch, j.choice.Pool, between)
	case len(j.sorted.Other) > 0:
		return fmt.Errorf("%w: no file that reaches pool %s changed %s; --all-files reverts the other files",
			ErrNothing, j.choice.Pool, between)
	default:
		return fmt.Errorf("%w: no file changed %s", ErrNothing, between)
	}
}

// conflicts names the files that later commits changed, and these commits.
func (j *job) conflicts(ctx context.Context) error {
	var all []Conflict
	for _, f := range j.sorted.Conflicts {
		commits, err := j.clone.commits(ctx, j.from, j.base.commit, []Change{f})
		if err != nil {
			return err
		}
		all = append(all, Conflict{Path: f.Path, Commits: commits})
	}
	return ConflictError(all, j.base.branch, j.from)
}

// checkResult writes the tree and checks that the pool renders to the config from before the reverted commits.
func (j *job) checkResult(ctx context.Context, was string) (err error) {
	if j.tree, err = j.clone.writeTree(ctx, j.base.commit, j.sorted.Revert); err != nil {
		return fmt.Errorf("writing the reverted files: %w", err)
	}
	commit, err := j.clone.forecastCommit(ctx, j.tree, j.base.commit)
	if err != nil {
		return fmt.Errorf("writing the reverted files: %w", err)
	}
	switch now, err := j.files.rendered(ctx, commit); {
	case err != nil:
		j.note("with the revert, %s cannot be applied: %v", j.base.branch, err)
	case was != "" && now != was:
		j.note("with the revert, pool %s does not get the same config as with %s, because later commits or other "+
			"files changed it, too. --dry-run shows the result", j.choice.Pool, j.choice.To.Text())
	}
	j.base.forecast = commit
	return nil
}

func (j *job) listFiles(ctx context.Context) error {
	counts, err := j.clone.lines(ctx, j.base.commit, j.base.forecast)
	if err != nil {
		return err
	}
	for _, f := range j.sorted.Revert {
		j.result.Files.Reverted = append(j.result.Files.Reverted, File{
			Path: f.Path, Change: f.Verb(),
			Lines: counts[f.Path],
		})
	}
	return nil
}

// forecast compares the result with what the cluster's nodes should run. If that fails, it is only a note.
func (j *job) forecast(ctx context.Context, target kube.Target) string {
	c := repository.WithCluster(repository.Repository{
		Repo: j.clone.dir, Path: j.choice.Source.Spec.Path,
		Revisions: true,
	},
		target, j.choice.Source.Name)
	found, err := c.Compare(ctx, "", j.base.forecast)
	if err != nil {
		j.note("bunsen cannot forecast the rollout: %v", err)
		return ""
	}
	found.Undo = "" // The undo command would be useless, because the compared commit is on no branch.
	j.result.Forecast = found
	others := slices.DeleteFunc(slices.Clone(found.Pools), func(p review.PoolChange) bool {
		return p.Pool == j.choice.Pool || !p.Changed()
	})
	for _, p := range others {
		j.note("the merge also changes pool %s", p.Pool)
	}
	var text strings.Builder
	if err := c.Show(&text, found, "text", ""); err != nil {
		j.note("bunsen cannot print the forecast: %v", err)
	}
	return text.String()
}

// RefStep says what to do after the merge if the source does not follow a branch; otherwise "".
func RefStep(ref v1alpha1.GitRef) string {
	switch {
	case ref.Commit != "":
		return "is pinned to a commit: after the merge, set spec.ref.commit to the merged commit"
	case ref.Name != "":
		return "follows " + ref.Name + ": after the merge, move that ref to the merged commit"
	case ref.SemVer != "":
		return "follows the tags " + ref.SemVer + ": after the merge, push a higher tag on the merged commit"
	case ref.Tag != "":
		return "follows the tag " + ref.Tag + ": after the merge, push a new tag on the merged commit, and set " +
			"spec.ref.tag to it"
	}
	return ""
}

// poolFiles are the files that reach a pool, at several commits.
type poolFiles struct {
	dir, folder, pool string
	memory            review.Renderings
	read              map[string]bool
}

// rendered renders the pool at a commit, and adds the files that it reads. The returned name is that of the config
// without the MachineConfigs that only the cluster has.
func (p *poolFiles) rendered(ctx context.Context, commit string) (string, error) {
	into, err := os.MkdirTemp("", "bunsen-tree-")
	if err != nil {
		return "", fmt.Errorf("making a directory for files: %w", err)
	}
	defer func() { _ = os.RemoveAll(into) }() // A remaining temporary directory does no harm.
	tree, err := git.OpenRevision(ctx, git.LocalRevision{Repository: p.dir, Revision: commit, Path: p.folder}, into)
	if err != nil {
		return "", fmt.Errorf("reading the files of %.8s: %w", commit, err)
	}
	p.memory.AllowLargeFiles(true) // Only the files count.
	result, rendering, err := p.memory.Render(tree, ctx.Err)
	if err != nil {
		return "", fmt.Errorf("rendering %.8s: %w", commit, err)
	}
	p.add(result, p.pool)
	if result.Report.Fatal() {
		return "", fmt.Errorf("%.8s is not valid: %s", commit, strings.TrimSpace(result.Report.String()))
	}
	selected, err := transpile.Select(result, p.pool)
	if err != nil {
		return "", fmt.Errorf("rendering %.8s: %w", commit, err)
	}
	for _, f := range selected {
		p.add(result, f.Pool)
	}
	for i := range rendering.Pools {
		if r := &rendering.Pools[i].Rendered; r.Pool == p.pool {
			return r.Name, nil
		}
	}
	return "", rendering.Err
}

func (p *poolFiles) add(result transpile.Result, pool string) {
	for _, file := range result.Reads[pool] {
		p.read[path.Join(p.folder, file)] = true
	}
}

// reaches reports whether a file, named from the repository's root, reaches the pool.
func (p *poolFiles) reaches(file string) bool {
	return p.read[file] || strings.HasPrefix(file, path.Join(p.folder, "pools", p.pool)+"/")
}

// Blob is the content and the mode of a file at a commit. The zero value is a file that does not exist.
type Blob struct{ Mode, Hash string }

// Change is a file that the commits changed.
type Change struct {
	Path string
	// To is the file before the commits, From after them, and Now at the end of the branch.
	To, From, Now Blob
}

// Verb says what the revert does with the file.
func (c Change) Verb() string {
	switch {
	case c.To == (Blob{}):
		return "delete"
	case c.Now == (Blob{}):
		return "create"
	}
	return "restore"
}

// Sorted has the changed files, grouped by what a rollback does with them.
type Sorted struct {
	// Revert are to be restored.
	Revert []Change
	// Other do not reach the pool and are left alone.
	Other []Change
	// Done are already restored by a later commit.
	Done []Change
	// Conflicts were changed again by later commits.
	Conflicts []Change
}

// Sort decides what happens to each file. If reaches is nil, every file reaches the pool.
func Sort(changes []Change, reaches func(path string) bool) Sorted {
	var s Sorted
	for _, c := range changes {
		switch {
		case reaches != nil && !reaches(c.Path):
			s.Other = append(s.Other, c)
		case c.Now == c.To:
			s.Done = append(s.Done, c)
		case c.Now != c.From:
			s.Conflicts = append(s.Conflicts, c)
		default:
			s.Revert = append(s.Revert, c)
		}
	}
	return s
}

// Conflict is a file that later commits changed, with these commits, newest first.
type Conflict struct {
	Path    string
	Commits []Commit
}

// ConflictError explains why files cannot be restored. The branch has the later commits.
func ConflictError(conflicts []Conflict, branch, from string) error {
	var b strings.Builder
	for _, c := range conflicts {
		fmt.Fprintf(&b, "\n  %s", c.Path)
		for _, commit := range c.Commits {
			fmt.Fprintf(&b, "\n    %s", commit.Text())
		}
	}
	return fmt.Errorf("later commits of %s changed files that the rollback would restore. bunsen overwrites none of "+
		"them:%s\nRevert these commits first with git revert, or restore the files yourself.\n"+
		"This prints the changes: git log -p %.8s..%s -- FILE", branch, b.String(), from, Word(branch))
}
