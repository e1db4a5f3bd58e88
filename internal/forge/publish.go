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
	// ID is the parameter of Edit.
	ID int64
	// Author is the login of the comment's author.
	Author string
	// Body is the text of the comment, in Markdown.
	Body string
}

// State is the state of a commit status.
type State string

// The states of a commit status.
const (
	Success State = "success"
	Failure State = "failure"
	// Pending is the state while the cluster works on the commit. Canceled means that a later commit replaced the
	// commit.
	Pending  State = "pending"
	Canceled State = "canceled"
)

// Status is a commit status.
type Status struct {
	// Context identifies the status: bunsen/plan.
	Context string
	// State is the state of the change.
	State State
	// Description is the text of the status, in one line. Publish truncates it to the limit of the services.
	Description string
	// URL is the address of a page with details, or "".
	URL string
}

// Host is a pull request on its service. The packages github, gitlab and gitea implement Host.
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

// maxDescription is the smallest limit of all services for a description, in characters: that of GitHub.
const maxDescription = 140

// Publish sets the status, and creates the comment. If the same account has already written comments with the same
// first line, the marker, Publish edits the oldest of them. A second call changes nothing. If the token allows only the
// status or only the comment, Publish writes the allowed one, and returns an error for the other one. The outcome is
// empty if the comment failed.
func Publish(ctx context.Context, h Host, body string, s Status) (Outcome, error) {
	s.Description = truncated(s.Description)
	errStatus := setStatus(ctx, h, s)
	if errStatus != nil {
		errStatus = fmt.Errorf("setting the status %s: %w", s.Context, errStatus)
	}
	outcome, err := comment(ctx, h, body)
	return outcome, errors.Join(errStatus, err)
}

// Preview returns what Publish would do with the comment. Preview reads the comments and changes nothing.
func Preview(ctx context.Context, h Host, body string) (Outcome, error) {
	outcome, _, err := decide(ctx, h, body)
	return outcome, err
}

// decide returns what to do with the comment, and the ID of the comment to edit.
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

// setStatus sets the status. If the answer is lost, setStatus reads the statuses of the commit.
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

// ownComment finds the earlier comment of the same account. ownComment compares the author, because every user can
// write the marker, and an edit would put the review under that user's name.
func ownComment(comments []Comment, self, marker string) (Comment, bool) {
	for _, c := range comments {
		if strings.EqualFold(c.Author, self) && firstLine(plain(c.Body)) == marker {
			return c, true
		}
	}
	return Comment{}, false
}

// plain returns a body without the changes that services make: other line breaks, and no blanks at both ends.
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
