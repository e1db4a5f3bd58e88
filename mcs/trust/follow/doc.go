// Package follow reads the certificates that nodes trust and the pull secret from an API server, and answers nodes.
//
// In: ConfigMaps and Secrets of Bunsen's namespaces, on request OpenShift's, the pools of nodes. Out: what a node
// trusts, as JSON; a copy of the last valid certificates for the next start. Never: a secret in the copy or the log,
// writes to the API server.
package follow
