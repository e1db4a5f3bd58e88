// Package trust decides which certificates and which pull secret the nodes of a pool get beside their config. The
// Follower reads them from an API server and answers nodes.
//
// In: ConfigMaps and Secrets of Bunsen's namespaces, on request OpenShift's; the state before, and the time. Out: what
// a node trusts, as JSON; problems of objects; a copy of the last valid certificates for the next start. Never: a
// private key; a secret in the copy or the log; a write to the API server.
package trust
