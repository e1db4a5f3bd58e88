// Command commit measures the steps from a commit to rendered configs: list the refs of a local repository, fetch the
// commit, write its files, transpile, render. It prints the cost of each step for growing repositories, with empty
// caches and after one changed file. It also prints how the cost grows with the number of fragments. Then it measures a
// commit of many documents on a real API server, with a revert that is pushed in the middle.
//
// In: flags; the packages that the controller runs; the programs of a control plane. Out: tables on standard output.
// Never: a cluster of the user.
package main
