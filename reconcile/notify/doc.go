// Package notify decides what a cluster reports about the commits of its sources: commit statuses and the outcome of a pull
// request for a git host, messages for other receivers.
//
// Everything follows from the objects of the cluster and from what the receiver already has. So after a restart the decision is
// the same, and a receiver gets nothing twice that it reports itself.
//
// In: GitSources, pools, the spec of a Notification, what the receiver has, and the current time. Out: statuses, comments and
// messages. Never: a request, a clock, a secret.
package notify
