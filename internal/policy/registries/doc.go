// Package registries decides whether a change of registries.conf is safe for running pods.
//
// In: the old and the new file of two configs. Out: why the change is unsafe. Never: any I/O.
package registries
