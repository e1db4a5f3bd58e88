// Package cloud exchanges the identity of this process at a cloud provider for credentials that read repositories of
// that provider.
//
// In: a provider, the address of a repository, the environment of the process. Out: data of a Secret with credentials
// that expire within an hour. Never: a credential for a host that is not the provider's; a redirect that is followed; a
// part of an answer or of a token in an error.
package cloud
