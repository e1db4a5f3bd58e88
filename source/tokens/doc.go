// Package tokens exchanges what identifies a source for tokens that expire soon: the key of a GitHub App, or the
// identity of this process at a cloud provider.
//
// A token is used until five minutes before it expires, by all sources that share it. A failure is kept for ten
// seconds, and one request is under way at a time, so that hundreds of sources do not storm a token service.
//
// In: the data of a Secret or the environment of the process, the address of a repository, the time. Out: a token, or
// the data of a Secret with it, for at most an hour; or a fault. Never: a token for a host that is not the provider's
// or that the Secret does not allow; a redirect that is followed; a part of a key, a token or an answer in an error.
package tokens
