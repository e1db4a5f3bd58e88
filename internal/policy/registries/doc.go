// Package registries decides whether a change of registries.conf or one of its drop-ins is safe for running pods.
//
// In: the files of two configs. Out: the reason why the change is unsafe. Never: any I/O.
package registries
