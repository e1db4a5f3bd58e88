// Package kustomization reads and checks the kustomization files of a repository.
//
// In: directories of a tree. Out: layers with their steps in kustomize's order, or findings. Never: a change of a document;
// generators, plug-ins and remote bases are refused.
package kustomization
