package repository

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/results"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/transpile"
)

// Repository is the directory or repository from which diff, comment and explain read.
type Repository struct {
	// Repo is a directory in a repository, and Path the folder below it that has pools/.
	Repo, Path string
	// With Revisions, only Repo and names that are written as paths, such as ./main, count as directories. Otherwise,
	// in the review of a pull request, the files of the pull request could replace a commit of the same name.
	Revisions bool
}

// Open returns the tree that arg names: a directory that exists, or else a revision of p.Repo. A name that could be
// both is an error, except HEAD, which is the revision. The caller must call the function done.
func (p Repository) Open(ctx context.Context, arg string) (tree source.Tree, done func(), err error) {
	if p.Directory(arg) {
		return OpenDir(ctx, filepath.Join(arg, p.Path))
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() && !p.Revisions {
		switch _, _, err := (git.LocalRevision{Repository: p.Repo, Revision: arg}).Resolve(ctx); {
		case err != nil:
			return OpenDir(ctx, filepath.Join(arg, p.Path))
		case arg != "HEAD":
			return source.Tree{}, func() {}, fmt.Errorf("%q is a directory and also a revision. Write ./%[2]s for "+
				"the directory; for the revision write refs/heads/%[2]s, refs/tags/%[2]s or a hash", arg, arg)
		}
	}
	into, done, err := tempDir()
	if err != nil {
		return source.Tree{}, done, err
	}
	at := git.LocalRevision{Repository: p.Repo, Revision: arg, Path: p.Folder(), Memory: true}
	if tree, err = git.OpenRevision(ctx, at, into); err != nil {
		if p.Revisions {
			return source.Tree{}, done, fmt.Errorf("reading %q as a revision: %w", arg, err)
		}
		return source.Tree{}, done, fmt.Errorf("%q is no directory; reading it as a revision: %w", arg, err)
	}
	return tree, done, nil
}

// Directory reports whether an argument must be a directory, and not a revision.
func (p Repository) Directory(arg string) bool {
	return arg == p.Repo || arg == "." || arg == ".." || filepath.IsAbs(arg) || strings.HasSuffix(arg, "/") ||
		strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}

// Folder returns the path of the folder with pools/, from the repository's root.
func (p Repository) Folder() string { return filepath.ToSlash(filepath.Join(BelowTop(p.Repo), p.Path)) }

// OpenDir returns the tree of a directory that has pools/. The caller must call the function done.
func OpenDir(ctx context.Context, dir string) (tree source.Tree, done func(), err error) {
	if err := checkFolder(dir); err != nil {
		return source.Tree{}, func() {}, err
	}
	into, done, err := tempDir()
	if err != nil {
		return source.Tree{}, done, err
	}
	tree, err = repository.ReadDir(ctx, dir, into, committed(dir), source.Limits{})
	return tree, done, err
}

func tempDir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp("", "bunsen-files-")
	if err != nil {
		return "", func() {}, fmt.Errorf("making a directory for files: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // A remaining temporary directory does no harm.
}

// committed returns a function for what git has of the files of a directory; nil outside of a work tree.
func committed(dir string) repository.Committed {
	at, err := git.FindAround(dir)
	if err != nil {
		return nil // Whoever reads the repository reports this.
	}
	c, err := at.Committed()
	if c == nil || err != nil {
		return nil
	}
	return func(name string, info fs.FileInfo, file io.ReaderAt) ([]byte, bool, bool) {
		return c.Content(path.Join(at.Folder, name), info, file)
	}
}

// checkFolder refuses a folder without pools/ before reading its files, because the wrong folder may contain gigabytes.
// It names the folders nearby that have pools/.
func checkFolder(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil // The code that reads the folder reports this error.
	}
	if _, err := os.Lstat(filepath.Join(dir, poolsFolder)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if at, err := git.FindAt(dir); err == nil && at.WorkTree == "" {
		return fmt.Errorf("%s is a bare git repository, which has no files outside of its commits: name a revision, "+
			"such as HEAD", dir)
	}
	text := fmt.Sprintf("there is no directory %s/ in %s, so it is no config repository", poolsFolder, dir)
	if above := folderAbove(dir); above != "" {
		return fmt.Errorf("%s; %s has one: run it there, or name that folder", text, above)
	}
	if below := foldersBelow(dir); len(below) > 0 {
		return fmt.Errorf("%s; name a folder that has one, such as %s", text,
			strings.Join(below[:min(namedFolders, len(below))], " or "))
	}
	return fmt.Errorf("%s: a repository has a directory %s/<pool>/ for each pool (%[2]s/worker/, %[2]s/master/) with "+
		"Butane documents (*.bu) or a kustomization.yaml in it", text, poolsFolder)
}

// folderAbove returns the nearest folder above dir that has pools/, or "". It stops at the top of a git work tree.
func folderAbove(dir string) string {
	at, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	top := ""
	if around, err := git.FindAround(at); err == nil {
		top = around.WorkTree
	}
	for at != top && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		if info, err := os.Stat(filepath.Join(at, poolsFolder)); err == nil && info.IsDir() {
			return at
		}
	}
	return ""
}

// foldersBelow returns the folders in dir that have pools/, in lexical order, without those in hidden folders.
func foldersBelow(dir string) (found []string) {
	seen := 0
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error { // The walk skips unreadable folders.
		if seen++; seen > searchEntries {
			return fs.SkipAll
		}
		rel, relErr := filepath.Rel(dir, p)
		switch {
		case err != nil || relErr != nil || !e.IsDir():
			return nil
		case rel != "." && strings.HasPrefix(e.Name(), "."),
			strings.Count(rel, string(filepath.Separator)) >= searchDepth:
			return fs.SkipDir
		case rel != "." && e.Name() == poolsFolder:
			found = append(found, filepath.Dir(p))
			return fs.SkipDir
		}
		return nil
	})
	slices.Sort(found)
	return found
}

const (
	poolsFolder = "pools"
	// limit the search for config repositories below a folder that is none
	searchDepth, searchEntries = 3, 2000
	namedFolders               = 3
)

// BelowTop returns the path of a directory from the top of its git work tree, so that a revision is read at the same
// path. It returns "" at the top, in a bare repository and outside of a repository.
func BelowTop(dir string) string {
	at, err := git.FindAround(dir)
	if err != nil {
		return "" // Whoever opens the repository reports this.
	}
	return filepath.FromSlash(at.Folder)
}

// ErrNotValid is the error of a tree that was read but cannot be rendered.
var ErrNotValid = errors.New("the repository is not valid")

// Render renders every pool of a tree. If the report is fatal, the error contains the whole report.
func Render(ctx context.Context, memory *review.Renderings,
	tree source.Tree,
) (transpile.Result, review.Rendering, error) {
	res, out, err := memory.Render(tree, ctx.Err)
	if err != nil {
		return res, out, cli.Invalid(fmt.Errorf("rendering the repository: %w", err))
	}
	return res, out, Checked(res, out)
}

// Checked returns an error if a tree cannot be rendered.
func Checked(res transpile.Result, out review.Rendering) error {
	switch {
	case res.Report.Fatal():
		return cli.Invalid(fmt.Errorf("%w:\n%s", ErrNotValid, res.Report))
	case out.Err != nil:
		return cli.Invalid(fmt.Errorf("%w:\n%w", ErrNotValid, out.Err))
	}
	return nil
}

// ChoosePools selects the pools to print. The parameter one names an output that can show only one pool; empty for one
// that can show all.
func ChoosePools(pools []review.PoolRendering, name, one string) ([]review.PoolRendering, error) {
	var names []string
	for _, p := range pools {
		if p.Rendered.Pool == name {
			return []review.PoolRendering{p}, nil
		}
		names = append(names, p.Rendered.Pool)
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("no pool %q; the repository has: %s", name, strings.Join(names, ", "))
	case one != "" && len(pools) != 1:
		return nil, fmt.Errorf("%s is one pool's: choose with --pool one of %s", one, strings.Join(names, ", "))
	}
	return pools, nil
}

// Cached says whether a verb uses the results of earlier runs of this program. The zero value does.
type Cached struct{ off bool }

// AddFlag adds the flag that turns it off.
func (c *Cached) AddFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&c.off, "no-cache", false, "compute everything again, and store no results for the next run")
}

// Use lets renderings use the results of earlier runs, and returns a function that stores the new ones. On a machine
// without a directory for them, or with one in a git repository, everything is computed.
func (c Cached) Use(memory *review.Renderings) (done func()) {
	if c.off {
		return func() {}
	}
	store, err := openResults()
	if err != nil {
		return func() {}
	}
	memory.Transpiler.Store, memory.Transpiler.Keep = store, review.Storable(store)
	memory.Renderer.Store = store
	return func() {
		_ = store.Close() // The next run computes what could not be stored, for example on a full disk.
	}
}

func openResults() (*results.Store, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the directory of stored results: %w", err)
	}
	program, err := programVersion()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "bunsen", "results")
	store, err := results.Open(dir, program, results.Limit, time.Now())
	if err != nil {
		return nil, err
	}
	// Some CI systems keep the cache directory in the checkout, where a commit can put files. With a strict umask, git
	// gives them the mode of stored results.
	if _, err := git.FindAround(dir); !git.IsNoRepository(err) {
		return nil, fmt.Errorf("the directory of stored results, %s, is in a git repository, or this is unknown", dir)
	}
	return store, nil
}

// programVersion identifies this executable, also one that was built from changed sources.
func programVersion() (string, error) {
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	// The linker writes the digest of everything that it linked near the beginning.
	head := make([]byte, 64<<10)
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, head); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	build, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s %x %d %d", build, sha256.Sum256(head), info.Size(), info.ModTime().UnixNano()), nil
}

// OpenCopy returns a private copy of a folder that has pools/, for a reader that stays. The copy closes the folder.
func OpenCopy(folder *os.Root) (*repository.Copy, error) { return repository.NewCopy(folder) }

// CheckFormat returns a warning if the directory is in a repository that Bunsen cannot fetch, although its files are
// valid.
func CheckFormat(dir string) []transpile.Entry {
	at, err := git.FindAround(dir)
	if err == nil && at.GitDir != "" {
		_, err = at.Open()
	}
	if !errors.Is(err, git.ErrObjectFormat) {
		return nil // What one reads here matters only to commands that read revisions, and they report it.
	}
	return []transpile.Entry{{
		Severity: transpile.Warning, Rule: "repository-format",
		Message: "no GitSource can fetch this repository: it " + git.ErrObjectFormat.Error() + ", or publish the " +
			"files with `bunsen push`",
	}}
}

// Ignores returns a function that reports whether git leaves a file of a directory out of commits, as the directory is
// from now on.
func Ignores(dir string) func(file string) bool { return ignores(git.FindAround(dir)) }

// IgnoresAt is Ignores for the top of a work tree. It looks for no repository around it.
func IgnoresAt(top string) func(file string) bool { return ignores(git.FindAt(top)) }

func ignores(at git.Location, err error) func(file string) bool {
	if err != nil {
		return func(string) bool { return false }
	}
	ignored := at.Ignored()
	return func(file string) bool {
		is, err := ignored.Has(path.Join(at.Folder, file))
		return is && err == nil // A file of which this is unknown counts as one of the repository.
	}
}

// DirArgument returns the directory that an optional argument names, by default the current directory.
func DirArgument(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

// CompletePools offers the folders of pools/ in the repository of the verb.
func CompletePools(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir := "."
	if cmd.Name() == "build" {
		dir = DirArgument(args)
	}
	for _, flag := range []string{"repo", "path"} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			dir = filepath.Join(dir, f.Value.String())
		}
	}
	var out []cobra.Completion
	entries, err := os.ReadDir(filepath.Join(dir, "pools"))
	for _, e := range entries {
		if err == nil && e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
