package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repositoryBranch is the branch of the first commit.
const repositoryBranch = "main"

// createRepository creates a bare repository at path with the content of examples as its first commit. createRepository
// returns false if the repository exists. createRepository needs git in PATH.
func createRepository(ctx context.Context, path, examples string) (created bool, err error) {
	switch _, err := os.Stat(filepath.Join(path, "HEAD")); {
	case err == nil:
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("finding the repository: %w", err)
	}
	if _, err := os.Stat(path); err == nil {
		return false, fmt.Errorf("%s exists and is not a git repository: move it, or set a repository with --repo",
			path)
	}
	if info, err := os.Stat(examples); err != nil || !info.IsDir() {
		return false, fmt.Errorf("creating the repository: the folder of examples %q is missing; set one with "+
			"--examples, or a repository with --repo", examples)
	}
	// createRepository creates the repository at another path and then renames it, so that an interrupted start leaves
	// no incomplete repository.
	beside := path + ".new"
	if err := os.RemoveAll(beside); err != nil {
		return false, fmt.Errorf("creating the repository: %w", err)
	}
	if err := fill(ctx, beside, examples); err != nil {
		return false, errors.Join(fmt.Errorf("creating the repository from %s: %w", examples, err),
			os.RemoveAll(beside))
	}
	if err := os.Rename(beside, path); err != nil {
		return false, fmt.Errorf("creating the repository: %w", err)
	}
	return true, nil
}

func fill(ctx context.Context, path, examples string) error {
	create := exec.CommandContext(ctx, "git", "init", "--quiet", "--bare", path)
	create.Env = withoutGit(os.Environ())
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("running git init: %w: %s", err, out)
	}
	// The user's git settings must not change the commit. So git ignores no files, converts no line endings and copies
	// no hooks of a template.
	g := git{ctx: ctx, dir: path, tree: examples}
	if _, err := g.run("symbolic-ref", "HEAD", "refs/heads/"+repositoryBranch); err != nil {
		return err
	}
	if _, err := g.run("-c", "core.bare=false", "-c", "core.autocrlf=false", "-c", "core.excludesFile=/dev/null", "add",
		"--all", "."); err != nil {
		return err
	}
	tree, err := g.run("write-tree")
	if err != nil {
		return err
	}
	commit, err := g.run("commit-tree", "-m", "Begin with the example "+filepath.Base(examples), tree)
	if err != nil {
		return err
	}
	if _, err = g.run("update-ref", "refs/heads/"+repositoryBranch, commit); err != nil {
		return err
	}
	return os.Remove(filepath.Join(path, "index"))
}

// git runs git on one bare repository with a working tree elsewhere.
type git struct {
	ctx       context.Context
	dir, tree string
}

func (g git) run(args ...string) (string, error) {
	cmd := exec.CommandContext(g.ctx, "git", append([]string{"--git-dir=" + g.dir, "--work-tree=" + g.tree},
		args...)...)
	cmd.Dir = g.tree
	cmd.Env = append(withoutGit(os.Environ()), "GIT_INDEX_FILE="+filepath.Join(g.dir, "index"))
	cmd.Env = append(cmd.Env, identity(g.ctx)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// withoutGit removes the variables of a git process that runs this program, such as a hook or rebase --exec. These
// variables would redirect git to the repository of that other git process.
func withoutGit(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "GIT_") || strings.HasPrefix(e, "GIT_CONFIG") ||
			strings.HasPrefix(e, "GIT_EXEC_PATH") {
			out = append(out, e)
		}
	}
	return out
}

// identity returns the author of the commit: the author in the user's git settings, if there is one.
func identity(ctx context.Context) []string {
	ask := func(key, otherwise string) string {
		out, err := exec.CommandContext(ctx, "git", "config", "--get", key).Output()
		if v := strings.TrimSpace(string(out)); err == nil && v != "" {
			return v
		}
		return otherwise
	}
	name, mail := ask("user.name", "Bunsen"), ask("user.email", "bunsen@localhost")
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
	}
}
