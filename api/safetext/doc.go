// Package safetext makes text of a repository, a cluster or a server safe to show: a terminal, a browser, a log and the runner of
// a CI job show it and do not act on it. It is the only place that says which characters are hidden.
//
// In: any text. Out: the same text, with a code such as \u202e in place of each character that would hide, move or command
// something. Never: a workflow command of GitHub Actions, Gitea or Forgejo that Bunsen did not write.
package safetext
