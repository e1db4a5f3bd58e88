package git

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/source"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/cache"
	formatconfig "github.com/go-git/go-git/v5/plumbing/format/config"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Location is where a repository on this machine is. FindAt and FindAround decide this for every reader and for every
// run of the program git, which gets the directories as options, so that git cannot choose another repository.
//
// Both ignore GIT_DIR, GIT_WORK_TREE and their kin: in a hook or in `git rebase --exec` these name the repository of
// another process, and a command must read the repository that its own arguments name.
//
// Both let a repository of any owner be read, because reading runs nothing that its config names. Who runs git in a
// Location lets git itself judge the owner first (safe.directory).
type Location struct {
	// GitDir has HEAD and the index. CommonDir has the refs and objects; it is another directory in a linked work tree.
	// Both are absolute and without symbolic links.
	GitDir, CommonDir string
	// WorkTree is the top of the work tree; empty for a bare repository. core.worktree does not change it: the work
	// tree is the directory with .git.
	WorkTree string
	// Folder is the path of the given folder from the top of the work tree, with slashes; empty at the top.
	Folder string
}

// FindAt finds the repository at a path, which is a work tree's top or a bare repository, as a URL of a GitSource.
// A path may be relative, or a file:// URL.
func FindAt(path string) (Location, error) { return find(path, false) }

// FindAround finds the repository of a folder: the nearest one, from the folder upwards. Each directory is a repository
// if it has .git, or if it is a bare repository and not a part of the commit that is checked out around it: anybody who
// can push could plant a directory with HEAD, objects, refs and a config.
func FindAround(folder string) (Location, error) { return find(folder, true) }

func find(path string, upwards bool) (Location, error) {
	start, err := directory(path)
	if err != nil {
		return Location{}, err
	}
	var refused error
	for at := start; ; at = filepath.Dir(at) {
		l, err := repositoryIn(at)
		if err != nil {
			return Location{}, err
		}
		if l.WorkTree == "" && l.GitDir != "" {
			around, err := trackedBy(l.GitDir, filepath.Dir(at))
			switch {
			case err != nil:
				return Location{}, err
			case around != "":
				refused, l = planted(around), Location{}
			}
		}
		switch {
		case l.GitDir != "":
			if l.WorkTree != "" {
				l.Folder = filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(start, at),
					string(filepath.Separator)))
			}
			return l, l.checkOwner(start)
		case !upwards && refused != nil:
			return Location{}, fmt.Errorf("%s looks like a bare repository: %w", path, refused)
		case !upwards:
			return Location{}, noRepositoryError("there is no git repository at " + path)
		case at == filepath.Dir(at):
			return Location{}, noRepositoryError(cmp.Or(path, ".") + " is not in a git repository")
		}
	}
}

// noRepositoryError says that there is no repository at a path.
type noRepositoryError string

// Error returns the sentence.
func (e noRepositoryError) Error() string { return string(e) }

// directory returns the directory that a path or a file:// URL names, absolute and without symbolic links: what is
// around it is what git sees there.
func directory(path string) (string, error) {
	named := cmp.Or(path, ".")
	if strings.HasPrefix(named, "file://") {
		a, err := source.ParseURL(named)
		if err != nil {
			return "", err
		}
		named = a.Path
	}
	abs, err := filepath.Abs(named)
	if err != nil {
		return "", fmt.Errorf("finding the repository at %s: %w", path, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", noRepositoryError(fmt.Sprintf("there is no directory %s, so no git repository", path))
	case err != nil:
		return "", fmt.Errorf("finding the repository at %s: %w", path, err)
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = noRepositoryError(path + " is a file, and a git repository is a directory")
	}
	return real, err
}

// repositoryIn returns the repository of a work tree whose top is the directory, or the bare repository in it; the zero
// Location if there is neither.
func repositoryIn(dir string) (Location, error) {
	name := filepath.Join(dir, ".git")
	info, err := os.Stat(name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return Location{}, fmt.Errorf("finding the repository in %s: %w", dir, err)
	case err == nil && info.Mode().IsRegular():
		return linked(dir, name)
	case err == nil && info.IsDir():
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			return Location{}, fmt.Errorf("finding the repository in %s: %w", dir, err)
		}
		if common, is := isGitDir(real); is {
			l := Location{GitDir: real, CommonDir: common, WorkTree: dir}
			if real == name {
				return l, nil
			}
			return l, l.checkTarget(name)
		}
	}
	if common, is := isGitDir(dir); is {
		return Location{GitDir: dir, CommonDir: common}, nil
	}
	return Location{}, nil
}

// maxGitFile is the largest size of a file .git, HEAD or commondir in bytes. They have one line.
const maxGitFile = 64 << 10

// linked returns the repository that a file .git names: that of a linked work tree, of a submodule, or one that
// `git init --separate-git-dir` made.
func linked(dir, name string) (Location, error) {
	text, err := readSmall(name)
	if err != nil {
		return Location{}, fmt.Errorf("reading %s: %w", name, err)
	}
	target, is := strings.CutPrefix(text, "gitdir:")
	if target = strings.Trim(target, " \r\n"); !is || target == "" {
		return Location{}, fmt.Errorf("%s names no repository: it should be the line `gitdir: PATH`", name)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	real, err := filepath.EvalSymlinks(target)
	common, is := "", false
	if err == nil {
		common, is = isGitDir(real)
	}
	if !is {
		return Location{}, fmt.Errorf("%s names %s, which is not a repository: it was moved or removed "+
			"(git worktree repair corrects a linked work tree)", name, target)
	}
	l := Location{GitDir: real, CommonDir: common, WorkTree: dir}
	return l, l.checkTarget(name)
}

// checkTarget refuses a .git that leads to a directory of a commit.
func (l Location) checkTarget(name string) error {
	around, err := trackedBy(l.GitDir, filepath.Dir(l.GitDir))
	if err == nil && around != "" {
		err = fmt.Errorf("%s leads to %s: %w", name, l.GitDir, planted(around))
	}
	return err
}

// headLine matches the contents of HEAD: a branch, also an unborn one, or the hash of a commit.
var headLine = regexp.MustCompile(`^(ref:\s*refs/\S.*|[0-9a-f]{40}|[0-9a-f]{64})\s*$`)

// isGitDir reports whether a directory is a repository by git's own rule (HEAD, objects and refs), and returns the
// directory with its objects and refs.
func isGitDir(dir string) (common string, is bool) {
	head := filepath.Join(dir, "HEAD")
	if to, err := os.Readlink(head); err == nil {
		if !strings.HasPrefix(to, "refs/") {
			return "", false
		}
	} else if text, err := readSmall(head); err != nil || !headLine.MatchString(text) {
		return "", false
	}
	common = dir
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		if common = strings.TrimSpace(text); !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		if common, err = filepath.EvalSymlinks(common); err != nil {
			return "", false
		}
	}
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(common, name)); err != nil || !info.IsDir() {
			return "", false
		}
	}
	return common, true
}

// readSmall reads a regular file with one line.
func readSmall(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxGitFile {
		return "", errors.New("it is not a regular file with one line")
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// errPlanted is the cause of each error of planted.
var errPlanted = errors.New("a commit contains it, so it is not opened as a repository")

// planted returns the error for a directory that is a part of the commit that is checked out in a work tree.
func planted(workTree string) error {
	return fmt.Errorf("%w (%s has it checked out)", errPlanted, workTree)
}

// trackedBy returns the work tree, at a directory or above it, whose index or commit has files below dir; empty if
// there is none. If it cannot tell, that is an error: then nobody knows who wrote the directory.
func trackedBy(dir, from string) (workTree string, err error) {
	for at := from; ; at = filepath.Dir(at) {
		// Only .git counts here: a bare repository has no files that are checked out.
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			l, err := repositoryIn(at)
			if err != nil {
				return "", fmt.Errorf("finding out whether a commit contains %s: %w", dir, err)
			}
			name, err := filepath.Rel(at, dir)
			if err != nil {
				return "", err
			}
			tracked := false
			if l.WorkTree != "" {
				tracked, err = l.tracks(filepath.ToSlash(name))
			}
			if err != nil {
				return "", fmt.Errorf("finding out whether the commit checked out in %s contains %s: %w", at, name, err)
			}
			if tracked {
				return at, nil
			}
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// tracks reports whether the index or the checked-out commit has files below a folder.
func (l Location) tracks(folder string) (bool, error) {
	repo, openErr := l.Open() // A repository whose refs have another format has an index of the known one.
	if errors.Is(openErr, ErrObjectFormat) {
		return false, openErr
	}
	entries, err := l.index()
	if err != nil {
		return false, fmt.Errorf("reading the index: %w", err)
	}
	for _, e := range entries {
		below, isSparse := strings.CutPrefix(folder+"/", e.Name)
		switch {
		case strings.HasPrefix(e.Name, folder+"/"):
			return true, nil
		case isSparse && e.Mode == filemode.Dir && openErr != nil: // A directory outside of a sparse checkout.
			return false, openErr
		case isSparse && e.Mode == filemode.Dir:
			if tree, err := repo.TreeObject(e.Hash); err != nil || hasFolder(tree, strings.TrimSuffix(below, "/")) {
				return err == nil, err
			}
		}
	}
	if openErr != nil {
		return false, nil
	}
	head, err := repo.Head()
	if err != nil {
		return false, nil // There is no commit yet.
	}
	commit, err := repo.CommitObject(head.Hash())
	if err != nil {
		return false, fmt.Errorf("reading commit %s: %w", head.Hash(), err)
	}
	tree, err := commit.Tree()
	if err != nil {
		return false, fmt.Errorf("reading the files of commit %s: %w", head.Hash(), err)
	}
	return hasFolder(tree, folder), nil
}

func hasFolder(tree *object.Tree, folder string) bool {
	e, err := tree.FindEntry(folder)
	return err == nil && e.Mode == filemode.Dir
}

// index returns the entries of the index, and of the index that a split index shares.
func (l Location) index() (all []*index.Entry, err error) {
	shared, err := filepath.Glob(filepath.Join(escapeGlob(l.GitDir), "sharedindex.*"))
	if err != nil {
		return nil, err
	}
	for _, name := range append(shared, filepath.Join(l.GitDir, "index")) {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var x index.Index
		// The library does not know the extensions of a split and of a sparse index. They come after the entries, which
		// it has read by then. It also compares a checksum that feature.manyFiles leaves out.
		err = index.NewDecoder(bytes.NewReader(data)).Decode(&x)
		if err != nil && !errors.Is(err, index.ErrUnknownExtension) && !errors.Is(err, index.ErrInvalidChecksum) {
			return nil, err
		}
		all = append(all, x.Entries...)
	}
	return all, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// checkOwner refuses a repository above the given folder that belongs to somebody else than the folder, the process and
// root: in /tmp, for example, everybody can create /tmp/.git.
func (l Location) checkOwner(folder string) error {
	top := cmp.Or(l.WorkTree, l.GitDir)
	if top == folder {
		return nil
	}
	allowed, err := trustedOwners()
	if err != nil {
		return fmt.Errorf("finding the user of this process: %w", err)
	}
	if owner, err := ownerOf(folder); err == nil {
		allowed = append(allowed, owner)
	}
	for _, dir := range []string{top, l.GitDir} {
		owner, err := ownerOf(dir)
		if err != nil {
			return fmt.Errorf("finding the owner of %s: %w", dir, err)
		}
		if !slices.Contains(allowed, owner) {
			return fmt.Errorf("%s is in the repository %s of another user (%s): if you trust it, name it itself",
				folder, top, owner)
		}
	}
	return nil
}

// Open opens the repository to read it. Its storage keeps packs open until the garbage collector frees it, and does not
// cache which packs exist, because another process may push or repack.
func (l Location) Open() (*gogit.Repository, error) {
	store, err := newLocalStorage(l)
	if err != nil {
		return nil, err
	}
	if l.WorkTree == "" {
		return gogit.Open(store, nil)
	}
	return gogit.Open(store, osfs.New(l.WorkTree))
}

func newLocalStorage(l Location) (localStorage, error) {
	common := osfs.New(l.CommonDir)
	if l.CommonDir == l.GitDir {
		common = nil
	}
	files := localFiles{dotgit.NewRepositoryFilesystem(osfs.New(l.GitDir), common), l.CommonDir}
	store := filesystem.NewStorageWithOptions(files, cache.NewObjectLRUDefault(), filesystem.Options{
		KeepDescriptors: true, AlternatesFS: osfs.New("/"),
	})
	c, err := store.Config()
	if err != nil {
		return localStorage{}, fmt.Errorf("reading the config of %s: %w", l.GitDir, err)
	}
	if err := checkFormat(c); err != nil {
		return localStorage{}, fmt.Errorf("%s %w", l.GitDir, err)
	}
	c.Raw.RemoveSection("extensions") // The library refuses also those that change nothing for a reader.
	return localStorage{store, c, l}, nil
}

// checkFormat returns an error for a repository that the library would misread.
func checkFormat(c *config.Config) error {
	if !c.Raw.HasSection("extensions") {
		return nil
	}
	for _, o := range c.Raw.Section("extensions").Options {
		switch name, value := strings.ToLower(o.Key), strings.ToLower(o.Value); {
		case name == "objectformat" && value != "sha1":
			return ErrObjectFormat
		case name == "refstorage" && value != "files":
			return errRefStorage
		case name == "objectformat", name == "refstorage", slices.Contains(readableExtensions, name):
		case c.Core.RepositoryFormatVersion == formatconfig.Version_1: // Version 0 has no others, and git ignores them.
			return fmt.Errorf("%w: %s", errExtension, source.Line(o.Key))
		}
	}
	return nil
}
