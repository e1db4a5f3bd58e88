// Package kustomization reads and checks the kustomization files of a repository.
//
// In: directories of a tree. Out: layers with their steps in kustomize's order, or findings. Never: a change of a
// document; a generator, a plug-in or a remote base, which the package refuses.
package kustomization
