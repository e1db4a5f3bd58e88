// Package join has what a machine needs before it has a config: tokens, pointer configs and the daemon. A token lets a
// machine read one pool's config until it ends or is used up. A pointer config is a small Ignition config with the
// server's URL, the CA to trust and a token; it fits into the user data of every cloud. The daemon comes as a service,
// with its binary or the URL and hash of it.
//
// In: ProvisioningTokens, the text of a token or a header, the server's URL and CAs, the daemon's binary, the time.
// Out: whether a token is valid, and its state in one word; Ignition configs, or every reason why there is none. Never:
// a token's secret in an error, a log or an object; the network, a file, a clock.
package join
