package source

import (
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
)

const maxLine = 200

// Line returns the first line of a commit's text: valid UTF-8, without hidden characters, at most 200 characters.
// Anyone who can push can choose the text of a commit, and Bunsen shows it on terminals and in annotations.
func Line(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	text, _, _ = strings.Cut(text, "\n")
	text = safetext.Strip(text)
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine-1]) + "…"
	}
	return strings.TrimSpace(text)
}

// CommitTime returns a commit's time in UTC to the second, or the zero time if the API cannot represent it.
func CommitTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// Descent says whether a newer commit descends from an older commit.
type Descent int

// The relations of a newer commit to an older commit.
const (
	// Unknown: the history is not available.
	Unknown Descent = iota
	// Descends: the older commit is an ancestor of the newer one, or the same commit.
	Descends
	// Rewritten: the older commit is not an ancestor.
	Rewritten
)

// String returns the name of the relation.
func (d Descent) String() string {
	return [...]string{"Unknown", "Descends", "Rewritten"}[max(0, min(int(d), 2))]
}
