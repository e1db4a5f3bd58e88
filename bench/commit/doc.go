// Command commit measures the way from a commit to rendered configs: list the refs of a local repository, fetch the
// commit, write its files, transpile, render. It prints what each step costs for growing repositories, from nothing and
// after one changed file, and how the cost grows with the number of fragments.
//
// In: flags; the packages that the controller runs. Out: tables on standard output. Never: a network, a cluster.
package main
