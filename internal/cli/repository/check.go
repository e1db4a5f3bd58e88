package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/source/git"
)

const (
	// poolsFolder is the folder that every config repository has.
	poolsFolder = "pools"
	// searchDepth and searchEntries limit the search for config repositories below a folder that is not a config
	// repository.
	searchDepth, searchEntries = 3, 2000
	// namedFolders is how many folders a message names.
	namedFolders = 3
)

// checkFolder refuses a folder without pools/ before reading its files, because the wrong folder may contain gigabytes.
// The error names the folders nearby that have pools/.
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

// foldersBelow returns the folders in dir that have pools/, in lexical order. foldersBelow does not search hidden
// folders.
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
