package rollback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/review"

	"github.com/bunsen-os/bunsen/source"
)

// Options are the flags of the verb rollback.
type Options struct {
	// Repo is a directory in a clone; empty for the current one, or a temporary clone. Remote is the clone's remote.
	Repo, Remote string
	// Base is the branch on which the commit is made; empty for the branch of the GitSource.
	Base string
	// If AllFiles is true, the commit also reverts files that do not reach the pool.
	AllFiles bool
	// If Push is true, bunsen pushes the branch, and opens a pull request if there is a token.
	Push bool
	// If DryRun is true, bunsen creates no branch and no commit on a branch.
	DryRun bool
	// Site overrides the data that bunsen finds out about the git host. TokenFrom is a file with the token for the git
	// host.
	Site      forge.Target
	TokenFrom string
}

// job is the state of one rollback, from the choice of the commits to the new commit.
type job struct {
	Options
	choice Choice
	clone  clone
	base   base
	// to and from are full hashes.
	to, from string
	sorted   Sorted
	tree     string
	files    poolFiles
	result   Result
}

// Run prepares the rollback. The parameter target is the cluster, which is only read. In a dry run, the returned text
// has the forecast.
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

// resolve finds the commits in the clone.
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

// completed returns the revision of a step, with the full hash of a commit that the user shortened.
func completed(s Step, hash string) string {
	if _, err := source.ParseRevision(s.Revision); err == nil {
		return s.Revision
	}
	return hash
}

func (j *job) note(format string, args ...any) {
	j.result.Notes = append(j.result.Notes, fmt.Sprintf(format, args...))
}

// selectFiles decides which files to restore.
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

// nothing returns a text that says why there is no file to restore.
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

// conflicts returns an error that names the files that later commits changed, and these commits.
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

// checkResult writes the tree and checks that the pool renders to the same config as before the reverted commits.
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

// listFiles lists the reverted files with their lines.
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

// forecast compares the result with what the cluster's nodes should run. If the comparison fails, the result has only a
// note.
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
