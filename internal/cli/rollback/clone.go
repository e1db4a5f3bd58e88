package rollback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// clone is the repository in which the commit is prepared.
type clone struct {
	program
	// that the GitSource follows; empty if the directory is the source's own repository
	remote  string
	address string
	// bunsen created the clone, and deletes it
	isTemporary bool
}

// findClone returns the user's directory, if it is a clone of the source's repository, or else a temporary clone. The
// caller must call done.
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

// open returns the program in the repository of a directory, which bunsen and git must both be able to open.
func open(ctx context.Context, dir string) (program, error) {
	at, err := git.FindAround(dir)
	if err != nil {
		return program{}, err
	}
	if _, err := at.Open(); err != nil {
		return program{}, err
	}
	p := program{stdin: os.Stdin}.in(at)
	if err := p.trusted(ctx); err != nil {
		return program{}, fmt.Errorf("opening the repository at %s: %w", p.dir, err)
	}
	return p, nil
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

type base struct {
	branch, commit string
	// a commit with the result of the rollback, on no branch
	forecast string
}

// base fetches a branch, by default that of the repository, and returns its newest commit.
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

// someHash: any other text from a cluster could be an option of git, or a branch.
var someHash = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// commit returns the full hash of a commit, and fetches it if the clone does not have it.
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

// fetchFiles fetches what a partial clone does not have yet.
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

func (c clone) isAncestor(ctx context.Context, old, young string) bool {
	_, err := c.run(ctx, "merge-base", "--is-ancestor", old, young)
	return err == nil
}

// absent: the mode of a file that does not exist, in git's lists
const absent = "000000"

// changes lists the files that differ between two commits, with their state at the end of the branch.
func (c clone) changes(ctx context.Context, to, from, now string) ([]Change, error) {
	out, err := c.run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--full-index", to, from)
	if err != nil {
		return nil, fmt.Errorf("comparing %.8s with %.8s: %w", to, from, err)
	}
	current, err := c.files(ctx, now)
	if err != nil {
		return nil, err
	}
	var changes []Change
	parts := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f := strings.Fields(strings.TrimPrefix(parts[i], ":")) // The fields are modes, hashes and a status.
		if len(f) != 5 {
			return nil, fmt.Errorf("comparing %.8s with %.8s: git prints %q", to, from, parts[i])
		}
		changes = append(changes, Change{
			Path: parts[i+1], To: blob(f[0], f[2]), From: blob(f[1], f[3]),
			Now: current[parts[i+1]],
		})
	}
	return changes, nil
}

func blob(mode, hash string) Blob {
	if mode == absent {
		return Blob{}
	}
	return Blob{Mode: mode, Hash: hash}
}

func (c clone) files(ctx context.Context, commit string) (map[string]Blob, error) {
	out, err := c.run(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, fmt.Errorf("listing the files of %.8s: %w", commit, err)
	}
	files := map[string]Blob{}
	for _, entry := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		head, name, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(head); len(f) == 3 { // The fields are mode, type and hash.
			files[name] = Blob{Mode: f[0], Hash: f[2]}
		}
	}
	return files, nil
}

// mostPaths limits the arguments of one command.
const mostPaths = 500

// commits lists the commits after old up to young that changed one of the files, newest first, and a merge if its files
// differ from those of every parent. With very many files, it lists all commits.
func (c clone) commits(ctx context.Context, old, young string, changes []Change) ([]Commit, error) {
	args := []string{"log", "-z", "--no-show-signature", "--format=%H%x00%an <%ae>%x00%s", old + ".." + young, "--"}
	if len(changes) <= mostPaths {
		for _, f := range changes {
			args = append(args, f.Path)
		}
	}
	out, err := c.run(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("listing the commits after %.8s: %w", old, err)
	}
	var commits []Commit
	for f := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), 3) {
		if len(f) == 3 {
			commits = append(commits, Commit{Hash: f[0], Author: f[1], Subject: f[2]})
		}
	}
	return commits, nil
}

func (c clone) lines(ctx context.Context, old, young string) (map[string]string, error) {
	out, err := c.run(ctx, "diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", old, young)
	if err != nil {
		return nil, fmt.Errorf("counting the changed lines: %w", err)
	}
	counts := map[string]string{}
	for _, entry := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		if f := strings.SplitN(entry, "\t", 3); len(f) == 3 && f[0] != "-" {
			counts[f[2]] = "+" + f[0] + " -" + f[1]
		}
	}
	return counts, nil
}

// writeTree writes the base with the reverted files as a tree. The index file is its own, not the user's.
func (c clone) writeTree(ctx context.Context, commit string, revert []Change) (string, error) {
	dir, err := os.MkdirTemp("", "bunsen-index-")
	if err != nil {
		return "", fmt.Errorf("making a directory for the index: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // A temporary directory that remains does no harm.
	p := c.with("GIT_INDEX_FILE=" + filepath.Join(dir, "index"))
	if _, err := p.run(ctx, "read-tree", commit); err != nil {
		return "", err
	}
	var deleted, written strings.Builder // Deleted files come first, because a directory may replace a file.
	for _, f := range revert {
		if f.To == (Blob{}) {
			fmt.Fprintf(&deleted, "0 %s\t%s\x00", strings.Repeat("0", len(f.From.Hash)), f.Path)
		} else {
			fmt.Fprintf(&written, "%s %s\t%s\x00", f.To.Mode, f.To.Hash, f.Path)
		}
	}
	if _, err := p.reading(deleted.String()+written.String()).run(ctx, "update-index", "-z",
		"--index-info"); err != nil {
		return "", err
	}
	return p.line(ctx, "write-tree")
}

// forecastCommit writes a commit that no branch has, so that the review can read it.
func (c clone) forecastCommit(ctx context.Context, tree, parent string) (string, error) {
	p := c.with("GIT_AUTHOR_NAME=bunsen", "GIT_AUTHOR_EMAIL=bunsen@localhost", "GIT_COMMITTER_NAME=bunsen",
		"GIT_COMMITTER_EMAIL=bunsen@localhost")
	return p.line(ctx, "-c", "commit.gpgSign=false", "commit-tree", tree, "-p", parent, "-m",
		"bunsen rollback --dry-run")
}

// commitTree commits a tree on a new branch in a temporary work tree, with the user's name, signing key and hooks. A
// branch that an earlier run created from the same commit and files is used again.
func (c clone) commitTree(ctx context.Context, branch, tree, parent, message string) (hash string, err error) {
	ref := "refs/heads/" + branch
	if is, err := c.line(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err == nil {
		if same, err := c.line(ctx, "rev-parse", ref+"^{tree}", ref+"^1"); err == nil && same == tree+"\n"+parent {
			return is, nil
		}
		return "", fmt.Errorf("%s has a branch %s already, with another commit. If you do not need it, delete it: "+
			"git branch -D %[2]s", c.dir, branch)
	}
	dir, err := os.MkdirTemp("", "bunsen-worktree-")
	if err != nil {
		return "", fmt.Errorf("making a directory for a work tree: %w", err)
	}
	file, at := filepath.Join(dir, "message"), filepath.Join(dir, "tree")
	defer func() {
		after := context.WithoutCancel(ctx) // The cleanup must run even after Ctrl-C.
		_, errRemove := c.run(after, "worktree", "remove", "--force", at)
		if err != nil {
			_, _ = c.run(after, "branch", "-D", branch) // The branch may not exist yet.
		} else if errRemove != nil {
			err = fmt.Errorf("removing the temporary work tree: %w", errRemove)
		}
		_ = os.RemoveAll(dir) // A temporary directory that remains does no harm.
	}()
	if err := os.WriteFile(file, []byte(message), 0o600); err != nil {
		return "", fmt.Errorf("writing the message of the commit: %w", err)
	}
	if _, err := c.run(ctx, "worktree", "add", "--quiet", "--no-track", "-b", branch, at, parent); err != nil {
		return "", err
	}
	linked, err := git.FindAt(at)
	if err != nil {
		return "", fmt.Errorf("making a work tree: %w", err)
	}
	work := c.in(linked)
	if _, err := work.run(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return "", err
	}
	if _, err := work.run(ctx, "commit", "--quiet", "--file", file); err != nil {
		return "", fmt.Errorf("committing the revert: %w", err)
	}
	return work.line(ctx, "rev-parse", "HEAD")
}

// push pushes the branch, never with force.
func (c clone) push(ctx context.Context, branch string) error {
	if c.remote == "" {
		return errors.New("--push: the directory is the repository of the GitSource itself, so there is nowhere to " +
			"push to; merge the branch there")
	}
	ref := "refs/heads/" + branch
	if _, err := c.run(ctx, "push", "--quiet", c.remote, ref+":"+ref); err != nil {
		return fmt.Errorf("pushing %s to %s: %w", branch, c.remote, err)
	}
	return nil
}
