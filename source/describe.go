package source

import (
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
)

const maxLine = 200

// Line makes one clean line of what a commit says of itself: its first line, valid UTF-8, without hidden characters,
// at most 200 characters. Whoever can push chooses that text, and it is shown on terminals and kept in annotations.
func Line(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	text, _, _ = strings.Cut(text, "\n")
	text = safetext.Strip(text)
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine-1]) + "…"
	}
	return strings.TrimSpace(text)
}

// Moment returns a commit's time in UTC to the second, or the zero time where the commit claims one that no API can hold.
func Moment(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// Descent says whether a commit descends from another.
type Descent int

// The answers.
const (
	// Unknown: the history is not at hand.
	Unknown Descent = iota
	// Descends: the newer commit has the older one among its ancestors, or is the same.
	Descends
	// Rewritten: it has not.
	Rewritten
)

// String names the answer.
func (d Descent) String() string {
	return [...]string{"Unknown", "Descends", "Rewritten"}[max(0, min(int(d), 2))]
}
