package source

import (
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Evidence is what a check of signatures reads, before any file of the commit is fetched.
type Evidence struct {
	// Ref is the full name of the ref that the spec picked, such as `refs/tags/v1.4.2`. Ref is empty for a pinned
	// commit.
	Ref string
	// Applied is the hash of the commit with which Commit is compared. Applied is empty if no commit is applied, or if
	// a user accepted Commit without a comparison.
	Applied string
	// Commit is the object of the commit to apply, as git stores it. The signature of the commit covers these bytes.
	Commit []byte
	// Tag is the object of the annotated tag that the spec names. Tag is nil for a branch, a pinned commit and a tag
	// without an object of its own.
	Tag []byte
	// Added lists the objects of the commits that Commit adds to the applied commit, newest first. The first object is
	// Commit. If Descent is Unknown, Added has only Commit.
	Added [][]byte
	// Descent is the relation of Commit to the applied commit. Descent is Unknown if no commit is applied.
	Descent Descent
}

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
