// Package safetext makes texts of a repository, a cluster or a server safe to show: a terminal, a browser, a log and
// the runner of a CI job print such a text, and execute nothing in it. Only this package defines which characters are
// hidden.
//
// In: any text. Out: the same text, with a code such as \u202e in place of each character that would hide, move or
// command something. Never: a workflow command of GitHub Actions, Gitea or Forgejo from another author than Bunsen.
package safetext
