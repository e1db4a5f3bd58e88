package rollback

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/source/git"
)

// program runs the user's git in one directory, with her credentials, hooks and signing key.
type program struct {
	dir string
	// told to git; zero for commands without one
	repository git.Location
	env        []string
	// git may read the passphrase of a key from it; nil for commands whose input bunsen writes
	stdin io.Reader
}

// repositoryVariables: these select another repository than that of a directory, for example in a hook.
var repositoryVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR",
	"GIT_NAMESPACE", "GIT_PREFIX", "GIT_CONFIG", "GIT_LITERAL_PATHSPECS",
}

// credentials: user and password may contain an @.
var credentials = regexp.MustCompile(`://[^/\s]*@`)

// run returns the standard output of git. The error has the last lines of its standard error, without credentials.
func (p program) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(p.options(), args...)...)
	cmd.Dir, cmd.Stdin = p.dir, p.stdin
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(repositoryVariables, name)
	})
	cmd.Env = append(append(cmd.Env, "LC_ALL=C", "GIT_LITERAL_PATHSPECS=1"), p.env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("the program git is not installed: bunsen rollback prepares the commit with it")
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", args[0], ctx.Err())
	case err != nil:
		return "", &gitError{command: args[0], said: lastLines(problems.String() + out.String()), err: err}
	}
	return out.String(), nil
}

// options tell git the repository: its own search can find another one, such as a directory of a commit that looks like
// a bare repository.
func (p program) options() (all []string) {
	if p.repository.GitDir != "" {
		all = append(all, "--git-dir="+p.repository.GitDir)
	}
	if p.repository.WorkTree != "" {
		all = append(all, "--work-tree="+p.repository.WorkTree)
	}
	return all
}

// line is run for commands that print one line.
func (p program) line(ctx context.Context, args ...string) (string, error) {
	out, err := p.run(ctx, args...)
	return strings.TrimRight(out, "\n"), err
}

func (p program) with(env ...string) program {
	p.env = append(slices.Clone(p.env), env...)
	return p
}

func (p program) in(at git.Location) program {
	p.repository, p.dir = at, cmp.Or(at.WorkTree, at.GitDir)
	return p
}

// trusted returns an error unless git itself opens the repository. Git refuses one of another user without
// safe.directory, because it runs programs that the repository's config names; it does not ask for a repository that it
// is told.
func (p program) trusted(ctx context.Context) error {
	at := p.repository
	p.repository = git.Location{}
	p = p.with("GIT_CEILING_DIRECTORIES=" + filepath.Dir(p.dir)) // Git must not search above the directory.
	opened, err := p.line(ctx, "-c", "safe.bareRepository=all", "rev-parse", "--absolute-git-dir")
	if err == nil && opened != at.GitDir {
		err = fmt.Errorf("git opens %s there, and bunsen found %s", opened, at.GitDir)
	}
	return err
}

func (p program) reading(text string) program {
	p.stdin = strings.NewReader(text)
	return p
}

type gitError struct {
	command, said string
	err           error
}

// Error returns what git printed.
func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: %v\n%s", e.command, e.err, e.said)
}

// Unwrap returns the exit status.
func (e *gitError) Unwrap() error { return e.err }

// lastLines shortens what git and its hooks print.
func lastLines(text string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(credentials.ReplaceAllString(text, "://")), "\n")
	lines = lines[max(0, len(lines)-most):]
	return safetext.Lines(strings.Join(lines, "\n"))
}
