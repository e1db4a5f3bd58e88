package forge

import (
	"context"
	"time"
)

// PostedStatus is a status that a commit has.
type PostedStatus struct {
	Status
	// Time is when it was set last; zero if the service does not say it.
	Time time.Time
}

// Commit is one commit on its service: the Head of a Target. The packages below this one implement it.
type Commit interface {
	// Status sets a status of the commit.
	Status(ctx context.Context, s Status) error
	// Statuses returns the newest status of each context.
	Statuses(ctx context.Context) ([]PostedStatus, error)
	// MergedBy returns the number of the merged pull request whose merge created the commit, or 0.
	MergedBy(ctx context.Context) (int, error)
}

// PublishComment creates the comment with the first line of the body, or edits the earlier one of the same account. It sets no status. A
// second call changes nothing.
func PublishComment(ctx context.Context, h Host, body string) (Outcome, error) {
	return comment(ctx, h, body)
}
