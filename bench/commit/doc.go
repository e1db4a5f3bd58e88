// Command commit measures the steps from a commit to rendered configs: list the refs of a local repository, fetch the
// commit, write its files, transpile, render. It prints the cost of each step for growing repositories, with empty
// caches and after one changed file. It also prints how the cost grows with the number of fragments.
//
// In: flags; the packages that the controller runs. Out: tables on standard output. Never: a network, a cluster.
package main
