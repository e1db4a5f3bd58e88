package revisions

import "fmt"

// Verb is what happens in a step.
type Verb int

// The verbs. A, B and C are the fields of the Step. A step that names nothing, or cannot happen now, does nothing.
const (
	// Push: repository A gets a commit with tree number B.
	Push Verb = iota
	// Source: the source controller reconciles GitSource A, B seconds after the last step. After C writes the following
	// steps happen before its next one.
	Source
	// Write: the source controller's next write has outcome B; A-1 further writes succeed without an interruption.
	Write
	// Render: the render controller reconciles pool A. The write number B/8 of it has outcome B%8. The kinds of the
	// bits of C reach its cache after it has read the pool.
	Render
	// Rollout: the rollout controller assigns the config of pool A to one node that does not have it. The
	// kinds of the bits of B reach its cache after it has read the pool.
	Rollout
	// Sync: the cache of controller A receives the events of the kinds of the bits of B; C is how many of each, 0 is
	// all.
	Sync
	// Restart: all controllers crash and start again, with new caches.
	Restart
	// Edit: a user edits object A in way B.
	Edit
	// Remove: a user deletes object A.
	Remove
	// Relabel: a user puts node A into the custom pool with label B; 0 is none.
	Relabel
	// Git: the remote of repository A is away (B is 1), or answers again.
	Git
	// Suspend: GitSource A is suspended (B is 1), or is not any more.
	Suspend
	// Prune: GitSource A prunes what is gone from its repository (B is 0), or leaves it there.
	Prune
	verbs
)

// Outcomes of a write.
const (
	done = iota
	// refused: the API server does not allow it.
	refused
	// unavailable: the API server does not answer, and the write is not done.
	unavailable
	// lost: the write is done, and its answer is lost.
	lost
	// conflict: the API server says that the object has changed.
	conflict
	// crashBefore: the controller crashes before the write.
	crashBefore
	// crashAfter: the controller crashes after the write.
	crashAfter
	outcomes
)

var outcomeNames = [outcomes]string{
	"", "the API server refuses it", "the API server does not answer",
	"its answer is lost", "the API server reports a conflict", "the controller crashes before it",
	"the controller crashes after it",
}

// Step is one thing that happens.
type Step struct {
	Verb    Verb
	A, B, C int
}

var verbNames = [verbs]string{
	"push", "source", "write", "render", "rollout", "sync", "restart", "edit", "remove",
	"relabel", "git", "suspend", "prune",
}

// String is the step in short.
func (s Step) String() string {
	if s.Verb < 0 || s.Verb >= verbs {
		return fmt.Sprintf("%d?", s.Verb)
	}
	return fmt.Sprintf("%s %d %d %d", verbNames[s.Verb], s.A, s.B, s.C)
}
