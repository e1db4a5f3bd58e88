// Package forge publishes a review on a pull request of GitHub, GitLab, Gitea or Forgejo: one comment, which it edits
// after each push, and one commit status.
//
// In: the environment of a CI job, a comment. Out: whether the comment was created or edited. Never: a change of
// another user's comment, a second comment, a token in an error.
package forge
