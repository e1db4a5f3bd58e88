// Package logtext makes text from a repository safe to print: a terminal, a browser and the runner of a CI job show it and do
// not act on it.
//
// In: any text. Out: the same text, with a code such as \u202e in place of each character that would hide, move or command
// something. Never: a workflow command of GitHub Actions, Gitea or Forgejo that Bunsen did not write.
package logtext
