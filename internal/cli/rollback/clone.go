package rollback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// clone is the repository in which the commit is prepared.
type clone struct {
	program
	// remote is the name of the remote that the GitSource follows; empty if the directory is the source's own
	// repository.
	remote string
	// address is the remote's URL.
	address string
	// isTemporary is true for a clone that bunsen created and deletes.
	isTemporary bool
}

// findClone returns the directory of the user, if it is a clone of the source's repository, or else a temporary clone.
// The caller must call the function done.
func (o Options) findClone(ctx context.Context, url string) (c clone, done func(), err error) {
	done = func() {}
	dir := cmp.Or(o.Repo, ".")
	c, err = o.openClone(ctx, dir, url)
	switch {
	case err == nil || o.Repo != "" || ctx.Err() != nil:
		return c, done, err
	case !o.Push && !o.DryRun:
		return c, done, fmt.Errorf("%w\nname a clone of %s with --repo, or use --push: bunsen then works in a "+
			"temporary clone", err, source.Redact(url))
	}
	temporary, err := os.MkdirTemp("", "bunsen-rollback-")
	if err != nil {
		return c, done, fmt.Errorf("making a directory for a clone: %w", err)
	}
	done = func() { _ = os.RemoveAll(temporary) } // A remaining temporary directory does no harm.
	address, err := source.ParseURL(url)
	if err != nil {
		return c, done, fmt.Errorf("reading the URL of the GitSource: %w", err)
	}
	p := program{dir: temporary, stdin: os.Stdin}
	if _, err := p.with("GIT_ALLOW_PROTOCOL=https:http:ssh:file").run(ctx, "clone", "--quiet", "--no-checkout", "--",
		address.String(), "clone"); err != nil {
		return c, done, fmt.Errorf("cloning %s: %w", address, err)
	}
	at, err := git.FindAt(filepath.Join(temporary, "clone"))
	if err != nil {
		return c, done, fmt.Errorf("cloning %s: %w", address, err)
	}
	return clone{program: p.in(at), remote: "origin", address: address.String(), isTemporary: true}, done, nil
}

// openClone checks that a directory is in a clone of the repository, and finds the remote.
func (o Options) openClone(ctx context.Context, dir, url string) (clone, error) {
	p, err := open(ctx, dir)
	if err != nil {
		return clone{}, err
	}
	top := p.dir
	remotes, err := p.line(ctx, "remote")
	if err != nil {
		return clone{}, err
	}
	var seen []string
	for _, name := range strings.Fields(remotes) {
		address, err := p.line(ctx, "remote", "get-url", name)
		if err != nil {
			continue // The remote has no URL.
		}
		if name == o.Remote || o.Remote == "" && SameRepository(address, url) {
			return clone{program: p, remote: name, address: address}, nil
		}
		seen = append(seen, name+" is "+source.Redact(address))
	}
	if o.Remote != "" {
		return clone{}, fmt.Errorf("--remote %s: %s has no such remote", o.Remote, top)
	}
	if isAt(url, p.repository) {
		return clone{program: p}, nil
	}
	return clone{}, fmt.Errorf("no remote of %s is the repository of the GitSource, %s (%s); if one is a mirror of "+
		"it, name it with --remote",
		top, source.Redact(url), cmp.Or(strings.Join(seen, ", "), "it has no remotes"))
}

// isAt reports whether a directory is in the repository of a source, or in a work tree that is linked to it.
func isAt(url string, dir git.Location) bool {
	a, err := source.ParseURL(url)
	if err != nil || a.Transport != source.Local {
		return false
	}
	at, err := git.FindAt(a.Path)
	return err == nil && at.CommonDir == dir.CommonDir
}

// base is the branch on which the commit is made, with its newest commit.
type base struct {
	branch, commit string
	// forecast is a commit with the result of the rollback. No branch has this commit.
	forecast string
}

// base fetches a branch, and returns its newest commit. An empty name stands for the default branch of the repository.
func (c clone) base(ctx context.Context, branch string) (base, error) {
	var err error
	if branch == "" {
		if branch, err = c.defaultBranch(ctx); err != nil {
			return base{}, err
		}
	}
	if _, err := c.run(ctx, "check-ref-format", "refs/heads/"+branch); err != nil {
		return base{}, fmt.Errorf("%q is no name of a branch", branch)
	}
	ref := "refs/heads/" + branch
	if c.remote != "" {
		ref = "refs/remotes/" + c.remote + "/" + branch
		if _, err := c.run(ctx, "fetch", "--quiet", "--no-tags", c.remote, "+refs/heads/"+branch+":"+ref); err != nil {
			return base{}, fmt.Errorf("fetching branch %s of %s: %w", branch, source.Redact(c.address), err)
		}
	}
	commit, err := c.line(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if err != nil {
		return base{}, fmt.Errorf("%s has no branch %s", c.dir, branch)
	}
	return base{branch: branch, commit: commit}, nil
}

// defaultBranch returns the branch that the remote's HEAD names.
func (c clone) defaultBranch(ctx context.Context) (string, error) {
	if c.remote == "" {
		name, err := c.line(ctx, "symbolic-ref", "HEAD")
		if err != nil {
			return "", errors.New("the repository has no default branch: name one with --base")
		}
		return strings.TrimPrefix(name, "refs/heads/"), nil
	}
	out, err := c.run(ctx, "ls-remote", "--symref", c.remote, "HEAD")
	if err != nil {
		return "", fmt.Errorf("reading the default branch of %s: %w", source.Redact(c.address), err)
	}
	for line := range strings.Lines(out) {
		if ref, is := strings.CutPrefix(line, "ref: refs/heads/"); is {
			name, _, _ := strings.Cut(strings.TrimSpace(ref), "\t")
			return name, nil
		}
	}
	return "", fmt.Errorf("%s has no default branch: name one with --base", source.Redact(c.address))
}

// someHash matches a hash, or its first digits. Any other text from a cluster could be an option of git, or a branch.
var someHash = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// commit returns the full hash of a commit. If the clone does not have the commit, commit fetches it from the remote.
func (c clone) commit(ctx context.Context, hash string) (string, error) {
	if !someHash.MatchString(hash) {
		return "", fmt.Errorf("%q is no hash of a commit: the status of the GitSource is damaged. Name the commit to "+
			"return to with --to", hash)
	}
	find := func() (string, error) { return c.line(ctx, "rev-parse", "--verify", "--quiet", hash+"^{commit}") }
	full, err := find()
	if err != nil && c.remote != "" && len(hash) == 40 {
		if _, err = c.run(ctx, "fetch", "--quiet", "--no-tags", c.remote, hash); err == nil {
			full, err = find()
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s has no commit %s, and the remote does not send it. If the clone is shallow, run "+
			"git fetch --unshallow. If the branch was rewritten, name another commit with --to", c.dir, hash)
	}
	// The text was the name of a ref: git prefers a name to the first digits of a hash.
	if !strings.HasPrefix(full, hash) {
		return "", fmt.Errorf("%s has a branch or a tag with the name %s, which is another commit: name all 40 "+
			"digits of the hash with --to", c.dir, hash)
	}
	return full, nil
}

// fetchFiles fetches the files of commits that a partial clone does not have yet.
func (c clone) fetchFiles(ctx context.Context, commits ...string) error {
	if _, err := c.run(ctx, "config", "--get-regexp", `^remote\..*\.promisor$`); err != nil {
		return nil // The clone has all files.
	}
	for _, commit := range commits {
		if _, err := c.run(ctx, "archive", "--output="+os.DevNull, "--format=tar", commit); err != nil {
			return fmt.Errorf("fetching the files of %.8s: %w", commit, err)
		}
	}
	return nil
}

// isAncestor reports whether a commit is in the history of another.
func (c clone) isAncestor(ctx context.Context, old, young string) bool {
	_, err := c.run(ctx, "merge-base", "--is-ancestor", old, young)
	return err == nil
}
