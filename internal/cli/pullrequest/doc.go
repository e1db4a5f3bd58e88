// Package pullrequest posts a comparison to a pull request: one comment that is edited in place, and one status.
//
// In: a comparison, the environment of a CI job. Out: requests to the service, or in a dry run only the comment. Never:
// a token for any server except the one that the user named.
package pullrequest
