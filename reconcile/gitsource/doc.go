// Package gitsource writes the objects of a revision to the cluster, completely or not at all.
//
// In: the transpiled content of a commit, the live objects. Out: the objects of the source, GitSource.status.applying,
// RevisionContents.
// Never: a fetch, or a write to an object of another owner.
//
// The part gitsource is the controller of GitSources: it follows their repositories and applies new commits.
//
// In: GitSources, Secrets, remote repositories. Out: the applied revision, and the status of the GitSource. Never: a
// write to a rendered config.
//
// The part webhook receives the requests with which git hosts announce a push, and records the announced push in the
// status of the GitSource.
//
// In: HTTP requests, GitSources, the Secrets of their webhooks. Out: GitSource.status.lastPush. Never: a decision about
// a commit; a request is only a reason to poll the repository.
package gitsource
