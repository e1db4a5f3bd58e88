// Package githubapp exchanges the key of a GitHub App for tokens that read repositories.
//
// In: the data of a Secret, the address of a repository, the time. Out: an installation token, for at most an hour.
// Never: a key or a token in an error; a request to a host that the Secret does not allow.
package githubapp
