package forge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrForbidden is in the chain of a Host's error if the token lacks the permission.
var ErrForbidden = errors.New("the token lacks the permission")

// Comment of a pull request.
type Comment struct {
	// ID is the parameter of Edit.
	ID int64
	// Author is the login of its author.
	Author string
	// Body in Markdown.
	Body string
}

// State of a commit status.
type State string

// The states of a change.
const (
	Success State = "success"
	Failure State = "failure"
	// Pending is the state while the cluster works on the commit. Canceled means that a later commit replaced it.
	Pending  State = "pending"
	Canceled State = "canceled"
)

// Status of a commit.
type Status struct {
	// Context identifies the status: bunsen/plan.
	Context string
	// State of the change.
	State State
	// Description in one line. Publish truncates it to the limit of the services.
	Description string
	// URL of the details, or "".
	URL string
}

// Host is a pull request on its service. The packages below this one implement it.
type Host interface {
	// Self returns the login of the token.
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

// Outcome is the result for the comment.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Edited    Outcome = "edited"
	Unchanged Outcome = "unchanged"
)

// maxDescription is the smallest limit of the services, in characters: that of GitHub.
const maxDescription = 140

// Publish sets the status, and creates the comment or edits the earlier one: the oldest comment of the same account with the
// same first line, the marker. A second call changes nothing. If the token allows only one of the two, Publish does that
// one and returns an error for the other. The outcome is empty if the comment failed.
func Publish(ctx context.Context, h Host, body string, s Status) (Outcome, error) {
	s.Description = truncated(s.Description)
	errStatus := h.Status(ctx, s)
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
		if err := h.Create(ctx, body); err != nil {
			return "", fmt.Errorf("adding the comment: %w", err)
		}
	case Edited:
		if err := h.Edit(ctx, id, body); err != nil {
			return "", fmt.Errorf("editing the comment: %w", err)
		}
	}
	return outcome, nil
}

// ownComment finds the earlier comment. It compares the author, because every user can write the marker, and an edit would put
// the review under that user's name.
func ownComment(comments []Comment, self, marker string) (Comment, bool) {
	for _, c := range comments {
		if strings.EqualFold(c.Author, self) && firstLine(plain(c.Body)) == marker {
			return c, true
		}
	}
	return Comment{}, false
}

// plain returns a body without the changes of services: line ends, and blanks at both ends.
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
