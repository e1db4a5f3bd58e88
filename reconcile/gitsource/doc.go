// Package gitsource is the controller of GitSources: it follows their repositories, and applies each new commit to
// the cluster completely or not at all.
//
// The path of a push: the webhook receiver notes the push in the status. The Controller lists the repository, picks
// the commit, compares it with the applied one, checks signatures, fetches the files and transpiles them. The Applier
// compares the result with the live objects, checks every write with the API server, records in
// GitSource.status.applying what it is going to write, and writes it. If a write fails, or a newer commit cannot be
// applied, it restores the applied revision from its RevisionContents. A newer commit may overtake the one that is
// being applied.
//
// In: GitSources, their Secrets, repositories, the live objects, requests of git hosts. Out: the fragments and
// objects of a revision, RevisionContents, and the status of the GitSource. Never: a write to a rendered config or to
// an object of another owner; a decision about a commit because of a webhook, whose request is only a reason to list
// the repository.
package gitsource
