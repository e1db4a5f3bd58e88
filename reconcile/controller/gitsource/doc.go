// Package gitsource is the controller of GitSources: it follows their repositories and applies new commits.
//
// In: GitSources, Secrets, remote repositories. Out: the applied revision, and the status of the GitSource. Never: a
// write to a rendered config.
package gitsource
