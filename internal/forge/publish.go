package forge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/fault"
)

// ErrForbidden is in the chain of a Host's error if the token lacks the permission.
var ErrForbidden = errors.New("the token lacks the permission")

// Comment is a comment on a pull request.
type Comment struct {
	// for Edit
	ID int64
	// a login
	Author string
	// in Markdown
	Body string
}

// State is the state of a commit status.
type State string

// The states of a commit status.
const (
	Success State = "success"
	Failure State = "failure"
	// Pending while the cluster works on the commit. Canceled: a later commit replaced it.
	Pending  State = "pending"
	Canceled State = "canceled"
)

// Status is a commit status.
type Status struct {
	// Context identifies the status: bunsen/plan.
	Context string
	State   State
	// Description is one line. Publish cuts it to the limit of the services.
	Description string
	// URL has details, or is "".
	URL string
}

// Host is a pull request on its service.
//
// After an error that fault.IsUnknown reports, the service may have done what was requested.
type Host interface {
	// Self returns the login of the user to whom the token belongs.
	Self(ctx context.Context) (string, error)
	// Comments returns all comments of the pull request, the oldest first.
	Comments(ctx context.Context) ([]Comment, error)
	// Create adds a comment.
	Create(ctx context.Context, body string) error
	// Edit replaces the body of a comment.
	Edit(ctx context.Context, id int64, body string) error
	// Status sets the status of the pull request's last commit.
	Status(ctx context.Context, s Status) error
}

// Outcome says what Publish did with the comment.
type Outcome string

// The outcomes of publishing a comment.
const (
	Created   Outcome = "created"
	Edited    Outcome = "edited"
	Unchanged Outcome = "unchanged"
)

// maxDescription is that of GitHub, the smallest, in characters.
const maxDescription = 140

// Publish sets the status, and creates the comment, or edits the oldest one of the same account with the same first
// line, the marker. A second call changes nothing. If the token allows only one of them, the error is about the other.
// The outcome is empty if the comment failed.
func Publish(ctx context.Context, h Host, body string, s Status) (Outcome, error) {
	s.Description = truncated(s.Description)
	errStatus := setStatus(ctx, h, s)
	if errStatus != nil {
		errStatus = fmt.Errorf("setting the status %s: %w", s.Context, errStatus)
	}
	outcome, err := comment(ctx, h, body)
	return outcome, errors.Join(errStatus, err)
}

// Preview returns what Publish would do with the comment. It reads the comments and changes nothing.
func Preview(ctx context.Context, h Host, body string) (Outcome, error) {
	outcome, _, err := decide(ctx, h, body)
	return outcome, err
}

// decide returns what to do with the comment, and which one to edit.
func decide(ctx context.Context, h Host, body string) (outcome Outcome, id int64, err error) {
	self, err := h.Self(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("reading the user of the token: %w", err)
	}
	comments, err := h.Comments(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("listing the comments: %w", err)
	}
	earlier, found := ownComment(comments, self, firstLine(body))
	switch {
	case !found:
		return Created, 0, nil
	case plain(earlier.Body) == plain(body):
		return Unchanged, earlier.ID, nil
	}
	return Edited, earlier.ID, nil
}

func comment(ctx context.Context, h Host, body string) (Outcome, error) {
	outcome, id, err := decide(ctx, h, body)
	if err != nil {
		return "", err
	}
	switch outcome {
	case Created:
		err = h.Create(ctx, body)
	case Edited:
		err = h.Edit(ctx, id, body)
	}
	if fault.IsUnknown(err) {
		// The answer is lost. A second request would write a second comment, so only the list decides.
		if found, _, lookErr := decide(ctx, h, body); lookErr != nil {
			err = errors.Join(err, lookErr)
		} else if found == Unchanged {
			err = nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("writing the comment, which is to be %s: %w", outcome, err)
	}
	return outcome, nil
}

// setStatus reads the statuses of the commit if the answer is lost.
func setStatus(ctx context.Context, h Host, s Status) error {
	err := h.Status(ctx, s)
	if c, can := h.(Commit); can && fault.IsUnknown(err) {
		posted, lookErr := c.Statuses(ctx)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		isSet := func(p PostedStatus) bool {
			return p.Context == s.Context && p.State == s.State && p.Description == s.Description
		}
		if slices.ContainsFunc(posted, isSet) {
			return nil
		}
	}
	return err
}

// ownComment finds the earlier comment of the same account: every user can write the marker, and an edit would put the
// review under that user's name.
func ownComment(comments []Comment, self, marker string) (Comment, bool) {
	for _, c := range comments {
		if strings.EqualFold(c.Author, self) && firstLine(plain(c.Body)) == marker {
			return c, true
		}
	}
	return Comment{}, false
}

// plain undoes what services change: other line breaks, and no blanks at both ends.
func plain(body string) string {
	return strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

func truncated(description string) string {
	if utf8.RuneCountInString(description) <= maxDescription {
		return description
	}
	return string([]rune(description)[:maxDescription-1]) + "…"
}

// PostedStatus is a status that a commit has.
type PostedStatus struct {
	Status
	// when the status was last set; zero if the service does not say it
	Time time.Time
}

// Commit is one commit on its service: the Head of a Target.
type Commit interface {
	// Status sets a status of the commit.
	Status(ctx context.Context, s Status) error
	// Statuses returns the newest status of each context.
	Statuses(ctx context.Context) ([]PostedStatus, error)
	// MergedBy returns the number of the merged pull request whose merge created the commit, or 0.
	MergedBy(ctx context.Context) (int, error)
}

// PublishComment creates a comment, or edits that of the same account with the same first line, and sets no status. A
// second call changes nothing.
func PublishComment(ctx context.Context, h Host, body string) (Outcome, error) {
	return comment(ctx, h, body)
}
