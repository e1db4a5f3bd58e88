// Package join writes the Ignition config that installs machine-config-daemon as a service on a new machine.
//
// In: the daemon's binary, or its URL and hash; the path at which to install it. Out: units, and an Ignition config
// with the binary. Never: a download, or a part of a pool's config.
//
// The part pointer writes pointer configs: a small Ignition config with the URL of the real config, the CA to trust and
// a token. A pointer config fits into the user data of every cloud.
//
// In: a pool, the server's URL, certificates of CAs, a token, a version of Ignition. Out: the pointer config as
// Ignition or as a Butane document that transpiles to the same config, or every reason why there is none. Never: the
// network, a file, a clock.
//
// The part token decides whether a new machine may read a pool's config: it creates tokens, reads them from a request,
// and checks them against ProvisioningToken objects.
//
// In: a token's text or a header, the ProvisioningToken with the token's id, the requested pool, the time. Out: nil or
// an InvalidError; a token's status after a use; a token's state in one word. Never: a secret in an error, a log or an
// object; a clock; the network.
package join
