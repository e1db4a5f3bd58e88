// Package token decides whether a new machine may read a pool's config: it creates tokens, reads them from a request,
// and checks them against ProvisioningToken objects.
//
// In: a token's text or a header, the ProvisioningToken with the token's id, the requested pool, the time. Out: nil or
// an InvalidError; a token's status after a use; a token's state in one word. Never: a secret in an error, a log or an
// object; a clock; the network.
package token
