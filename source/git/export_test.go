package git

import "github.com/bunsen-os/bunsen/source/git/objects"

// LimitCommits sets what a fetch of commits may bring, and returns how to undo that.
func LimitCommits(l objects.Limits) (undo func()) {
	before := commitLimits
	commitLimits = l
	return func() { commitLimits = before }
}
