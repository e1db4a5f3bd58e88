// Package registries tests the files of transpile/kinds with the parsers of the programs that read them on nodes:
// the library of CRI-O and Podman, and that of containerd.
//
// In: documents about registries. Out: the mirrors and requirements that the parsers find for an image. Never: a
// network.
package registries
