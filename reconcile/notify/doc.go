// Package notify decides what a cluster reports about the commits of its sources: commit statuses and the outcome of a
// pull request for a git host, messages for other receivers.
//
// Every decision follows from the objects of the cluster and from the messages and statuses that the receiver already
// has. So after a restart the decision is the same, and a git host does not get the same status or comment twice.
//
// In: GitSources, pools, the spec of a Notification, the messages and statuses that the receiver has, and the current
// time. Out: statuses, comments and messages. Never: a request, a clock, a secret.
package notify
