// Command sources measures a controller that follows many repositories: polls without a new commit, pushes that a poll
// finds, and pushes that a webhook announces. The controller is a process of its own on a real API server. The
// repositories are served by git http-backend on loopback, and some sources have a server that accepts connections and
// never answers.
//
// In: flags; the git program; etcd and kube-apiserver. Out: tables on standard output. Never: a network beyond
// loopback, a cluster of the user.
package main
