// Package connect opens the repository of a source with the credentials of its Secret, or with tokens that it gets in
// exchange for these credentials.
//
// In: the URL, the Secrets and the limits of a source. Out: a repository. Never: a request before the first listing; a
// credential for a host that its Secret does not name.
package connect
