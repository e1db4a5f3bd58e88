// Package webhook receives the requests with which git hosts announce a push, and records the announced push in the
// status of the GitSource.
//
// In: HTTP requests, GitSources, the Secrets of their webhooks. Out: GitSource.status.lastPush. Never: a decision about
// a commit; a request is only a reason to poll the repository.
package webhook
