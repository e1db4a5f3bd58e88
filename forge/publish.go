package forge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrForbidden is in the chain of a Host's error where the token may not do what was asked.
var ErrForbidden = errors.New("the token may not do this")

// Comment of a pull request.
type Comment struct {
	// ID that Edit takes.
	ID int64
	// Author is the login of whoever wrote it.
	Author string
	// Body in Markdown.
	Body string
}

// State of a commit status.
type State string

// States: what a change may be.
const (
	Success State = "success"
	Failure State = "failure"
)

// Status of a commit.
type Status struct {
	// Context tells statuses apart: bunsen/plan.
	Context string
	// State that shows.
	State State
	// Description in one line; it is cut where a service allows less.
	Description string
	// URL to read more, or "".
	URL string
}

// Host is a pull request on its service. The rooms below this one implement it.
type Host interface {
	// Self is the login whose token is used.
	Self(ctx context.Context) (string, error)
	// Comments of the pull request, the oldest first, all of them.
	Comments(ctx context.Context) ([]Comment, error)
	// Create adds a comment.
	Create(ctx context.Context, body string) error
	// Edit replaces the body of a comment.
	Edit(ctx context.Context, id int64, body string) error
	// Status sets the status of the pull request's last commit.
	Status(ctx context.Context, s Status) error
}

// Outcome says what became of the comment.
type Outcome string

// Outcomes.
const (
	Created   Outcome = "created"
	Edited    Outcome = "edited"
	Unchanged Outcome = "unchanged"
)

// maxDescription is the shortest limit among the services: GitHub's, in characters.
const maxDescription = 140

// Publish sets the status, and posts the comment or edits the one of before: the oldest that the same account wrote and
// whose first line, the marker, is the same. Done twice it does nothing the second time. A token that may do only one of
// the two does that one; the error tells of the other, and the outcome is empty where it was the comment.
func Publish(ctx context.Context, h Host, body string, s Status) (Outcome, error) {
	s.Description = cut(s.Description)
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

// decide finds out what to do with the comment, and which one to edit.
func decide(ctx context.Context, h Host, body string) (outcome Outcome, id int64, err error) {
	self, err := h.Self(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("asking whose the token is: %w", err)
	}
	comments, err := h.Comments(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("listing the comments: %w", err)
	}
	before, found := sticky(comments, self, firstLine(body))
	switch {
	case !found:
		return Created, 0, nil
	case plain(before.Body) == plain(body):
		return Unchanged, before.ID, nil
	}
	return Edited, before.ID, nil
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

// sticky finds our comment. The author is compared because anybody can write the marker: an edit would put our words
// under their name, for them to change.
func sticky(comments []Comment, self, marker string) (Comment, bool) {
	for _, c := range comments {
		if strings.EqualFold(c.Author, self) && firstLine(plain(c.Body)) == marker {
			return c, true
		}
	}
	return Comment{}, false
}

// plain is a body without what services change in it: line ends, and blanks around it.
func plain(body string) string {
	return strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

func cut(description string) string {
	if utf8.RuneCountInString(description) <= maxDescription {
		return description
	}
	return string([]rune(description)[:maxDescription-1]) + "…"
}
