// Package token decides whether a new machine may have a pool's config: it makes tokens, reads them from a request, and
// judges them by what is kept of them.
//
// In: a token's text or a header, the ProvisioningToken of its id, the pool that is asked for, and now. Out: nil or a
// Refusal; what a use makes of a token's status; what a token is in one word. Never: a secret in an error, a log or an
// object; a clock; the network.
package token
