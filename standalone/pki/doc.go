// Package pki creates the keys, certificates and kubeconfig files of a local
// control plane, stores them in a folder, and renews certificates that expire soon
// at the next start.
//
// In: a folder, the wanted certificates, the time. Out: PEM and kubeconfig files, readable by their owner only, written
// atomically. Never: the replacement of a valid CA, a printed key, the clock, a change of the user's own kubeconfig.
package pki
