package forge

import (
	"context"
	"time"
)

// PostedStatus is a status that a commit has.
type PostedStatus struct {
	Status
	// Time is when the status was last set; zero if the service does not report it.
	Time time.Time
}

// Commit is one commit on its service: the Head of a Target. The packages github, gitlab and gitea implement Commit.
type Commit interface {
	// Status sets a status of the commit.
	Status(ctx context.Context, s Status) error
	// Statuses returns the newest status of each context.
	Statuses(ctx context.Context) ([]PostedStatus, error)
	// MergedBy returns the number of the merged pull request whose merge created the commit, or 0.
	MergedBy(ctx context.Context) (int, error)
}

// PublishComment creates a comment. If the same account has already written a comment with the same first line,
// PublishComment edits that comment. PublishComment sets no status. A second call changes nothing.
func PublishComment(ctx context.Context, h Host, body string) (Outcome, error) {
	return comment(ctx, h, body)
}
