// Package forge publishes a review on a pull request of any git host: one comment, which it edits after each change,
// and one commit status.
//
// In: the environment of a continuous-integration job, a comment, a Host. Out: whether the comment was created or
// edited. Never: a change of another user's comment; a second comment; a token in an error.
package forge
