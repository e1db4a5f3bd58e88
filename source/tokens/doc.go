// Package tokens exchanges the identity of this process at a cloud provider for credentials that read repositories of
// that provider.
//
// In: a provider, the address of a repository, the environment of the process. Out: data of a Secret with credentials
// that expire within an hour. Never: a credential for a host that is not the provider's; a redirect that is followed; a
// part of an answer or of a token in an error.
//
// The part githubapp exchanges the key of a GitHub App for tokens that read repositories.
//
// In: the data of a Secret, the address of a repository, the time. Out: an installation token, for at most an hour.
// Never: a key or a token in an error; a request to a host that the Secret does not allow.
package tokens
