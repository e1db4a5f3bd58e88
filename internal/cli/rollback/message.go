package rollback

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/source"
)

// mostListed is how many commits and files a text lists.
const mostListed = 20

// Commit is a commit of the repository.
type Commit struct {
	Hash    string `json:"hash"`
	Author  string `json:"author,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// Text describes the commit on one line.
func (c Commit) Text() string { return fmt.Sprintf("%.8s %s", c.Hash, source.Quote(c.Subject)) }

// Branch returns the name of the branch for a rollback.
func (c Choice) Branch() string { return fmt.Sprintf("bunsen/rollback-%s-%.8s", c.Pool, c.From.Hash()) }

// Title returns the first line of the rollback commit's message. The parameter commits has the commits to revert,
// newest first.
func (c Choice) Title(commits []Commit) string {
	switch len(commits) {
	case 0: // Two branches without a common history have no commits between them.
		return "Revert " + quoted(cmp.Or(c.From.Subject, c.From.Hash()))
	case 1:
		return "Revert " + quoted(commits[0].Subject)
	}
	return fmt.Sprintf("Revert %s and %s", quoted(commits[0].Subject), fleet.Count(len(commits)-1, "earlier commit"))
}

// quoted writes a subject in quotation marks as git revert does, without control characters.
func quoted(subject string) string { return `"` + safetext.Line(subject) + `"` }

// plain matches words that a shell does not change.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// Word quotes a text for a command that a user pastes into a shell. The names of branches come from a repository, and
// may have any character but spaces.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Message returns the rollback commit's message. The parameter other has the files of the reverted commits that the
// rollback does not change. The parameter cluster is the name of the user's cluster, or empty.
func (c Choice) Message(commits []Commit, other []Change, cluster string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.Title(commits))
	of := "pool " + c.Pool
	if cluster != "" {
		of += " of cluster " + safetext.Line(cluster)
	}
	to := fmt.Sprintf("%.12s", c.To.Hash())
	if c.To.Subject != "" {
		to += " " + quoted(c.To.Subject)
	}
	fmt.Fprintf(&b, "This returns %s to\n%s", of, to)
	if c.To.Config != "" {
		fmt.Fprintf(&b, ",\n%s", safetext.Line(c.To.Config))
	}
	b.WriteString(".\n\n")
	for i, one := range commits {
		if i == mostListed {
			fmt.Fprintf(&b, "and %s.\n", fleet.Count(len(commits)-mostListed, "earlier commit"))
			break
		}
		if len(commits) == 1 {
			fmt.Fprintf(&b, "This reverts commit %s.\n", one.Hash)
			break
		}
		if i == 0 {
			b.WriteString("This reverts:\n")
		}
		fmt.Fprintf(&b, "  %s %s\n", one.Hash, quoted(one.Subject))
	}
	if len(other) > 0 {
		b.WriteString("\nFiles that do not reach the pool stay as they are:\n")
		for i, f := range other {
			if i == mostListed {
				fmt.Fprintf(&b, "  and %d more\n", len(other)-mostListed)
				break
			}
			fmt.Fprintf(&b, "  %s\n", safetext.Line(f.Path))
		}
	}
	return b.String()
}
