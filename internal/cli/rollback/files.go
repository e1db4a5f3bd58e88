package rollback

import (
	"fmt"
	"strings"
)

// Blob is the content and the mode of a file at a commit. The zero value is a file that does not exist.
type Blob struct{ Mode, Hash string }

// Change is a file that the commits changed.
type Change struct {
	// Path is the path of the file from the repository's root.
	Path string
	// To is the file before the commits, From is the file after the commits, and Now is the file at the end of the
	// branch.
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
	// Revert are the files to restore.
	Revert []Change
	// Other are files that do not reach the pool. The rollback does not change these files.
	Other []Change
	// Done are files that a later commit already restored.
	Done []Change
	// Conflicts are files that later commits changed again.
	Conflicts []Change
}

// Sort decides what happens to each file. reaches reports whether a file reaches the pool; if it is nil, every file
// reaches the pool.
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

// Conflict is a file that later commits changed, with these later commits, newest first.
type Conflict struct {
	Path    string
	Commits []Commit
}

// ConflictError explains why files cannot be restored. The parameter branch is the branch that has the later commits.
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
