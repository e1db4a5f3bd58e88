package rollback

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
)

// Result is a prepared rollback, for users and programs.
type Result struct {
	Pool    string `json:"pool"`
	Cluster string `json:"cluster,omitempty"`
	// Source is the GitSource, Repository its URL without credentials.
	Source     string `json:"source"`
	Repository string `json:"repository"`
	// From is the newest commit to revert, To the one to which the pool returns.
	From Step `json:"from"`
	To   Step `json:"to"`
	// Commits are the reverted ones, newest first.
	Commits []Commit `json:"commits"`
	Files   Files    `json:"files"`
	Git     Git      `json:"git"`
	// Notes are texts that the user should read.
	Notes []string `json:"notes,omitempty"`
	// Todo has the user's next steps, in order: commands, or the address of a page.
	Todo []string `json:"todo,omitempty"`
	// Forecast is what the merge does to nodes, as `bunsen diff --cluster -o json` prints it; nil unless in a dry run.
	Forecast any `json:"forecast,omitempty"`
}

// Files are the files of a rollback.
type Files struct {
	Reverted []File `json:"reverted"`
	// Other do not reach the pool and are left alone.
	Other []string `json:"other,omitempty"`
	// Done are files that a later commit already restored.
	Done []string `json:"done,omitempty"`
}

// File is a file that the rollback changes.
type File struct {
	Path string `json:"path"`
	// Change is restore, create or delete.
	Change string `json:"change"`
	// Lines is the number of added and removed lines, `+1 -3`; empty for a binary file.
	Lines string `json:"lines,omitempty"`
}

// Git is the commit of a rollback with its branch and clone.
type Git struct {
	// Branch has the commit, on top of Base at BaseCommit.
	Branch     string `json:"branch"`
	Base       string `json:"base"`
	BaseCommit string `json:"baseCommit"`
	// Commit is empty in a dry run.
	Commit string `json:"commit,omitempty"`
	// Directory is the clone; empty if it was temporary.
	Directory string `json:"directory,omitempty"`
	Pushed    bool   `json:"pushed,omitempty"`
	// PullRequest is the address of the pull request that bunsen opened.
	PullRequest string `json:"pullRequest,omitempty"`
}

// Text is for people. The parameter forecast may be empty.
func (r Result) Text(forecast string) string {
	b := terminal.Labels{}
	b.Add("", fmt.Sprintf("pool/%s returns to %s", r.Pool, r.To.Text()))
	b.Gap()
	for i, c := range r.Commits {
		if i == mostListed {
			b.Add("Reverts", fmt.Sprintf("and %d more", len(r.Commits)-mostListed))
			break
		}
		b.Add("Reverts", c.Text()+"   "+c.Author)
	}
	wide := 0
	for _, f := range r.Files.Reverted {
		wide = max(wide, len(f.Path))
	}
	for _, f := range r.Files.Reverted {
		b.Add("Files", fmt.Sprintf("%-7s  %-*s   %s", f.Change, wide, f.Path, f.Lines))
	}
	listFiles(&b, "Unchanged", r.Files.Other, "does not reach the pool; --all-files reverts it, too")
	listFiles(&b, "Unchanged", r.Files.Done, "a later commit restored it already")
	switch {
	case r.Git.Commit == "":
		b.Add("Commit", fmt.Sprintf("dry run: bunsen creates nothing. Without --dry-run, it creates branch %s on "+
			"top of %s", r.Git.Branch, r.Git.Base))
	case r.Git.Pushed:
		b.Add("Commit", fmt.Sprintf("%.8s on branch %s on top of %s, pushed", r.Git.Commit, r.Git.Branch, r.Git.Base))
	default:
		b.Add("Commit", fmt.Sprintf("%.8s on branch %s on top of %s, in %s", r.Git.Commit, r.Git.Branch, r.Git.Base,
			r.Git.Directory))
	}
	b.Add("Pull", r.Git.PullRequest)
	for _, n := range r.Notes {
		b.Add("Note", n)
	}
	for _, n := range r.Todo {
		b.Add("To do", n)
	}
	if forecast != "" {
		return b.String() + "\nThe merge does this to the cluster's nodes:\n\n" + strings.TrimLeft(forecast, "\n")
	}
	return b.String()
}

// listFiles lists files that a rollback leaves unchanged, with the reason.
func listFiles(b *terminal.Labels, label string, files []string, why string) {
	for i, f := range files {
		if i == mostListed {
			b.Add(label, fmt.Sprintf("and %d more", len(files)-mostListed))
			return
		}
		b.Add(label, f+"   ("+why+")")
	}
}

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

// Title returns the first line of the commit message for reverted commits, newest first.
func (c Choice) Title(commits []Commit) string {
	switch len(commits) {
	case 0: // Two branches without a common history have no commits between them.
		return "Revert " + quoted(cmp.Or(c.From.Subject, c.From.Hash()))
	case 1:
		return "Revert " + quoted(commits[0].Subject)
	}
	return fmt.Sprintf("Revert %s and %s", quoted(commits[0].Subject), fleet.Count(len(commits)-1, "earlier commit"))
}

// quoted writes a subject as git revert does, without control characters.
func quoted(subject string) string { return `"` + safetext.Line(subject) + `"` }

// plain: words that a shell does not change.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// Word quotes a text for a command that a user pastes into a shell. The names of branches come from a repository, and
// may have any character but spaces.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Message returns the commit message. The parameter other has the files of the reverted commits that the rollback
// leaves alone; cluster is the name of the user's cluster, or empty.
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
