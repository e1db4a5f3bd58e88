// Package follow reads the certificates that nodes trust from an API server, and answers nodes.
//
// In: ConfigMaps of Bunsen's namespace, the pools of nodes. Out: what a node trusts, as JSON; a copy of the last valid
// content for the next start. Never: Secrets, writes to the API server.
package follow
