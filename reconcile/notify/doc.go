// Package notify tells git hosts and chats what becomes of a commit: statuses, the outcome on a pull request, messages.
// Every decision follows from the objects of the cluster and from what the receiver has already, so that a restart
// repeats nothing. The Controller sends them, in a process of its own, the notifier: only this process reads the tokens
// of receivers.
//
// In: GitSources, pools, MachineConfigNodes, Notifications with their Secrets, what a receiver has, the time. Out:
// statuses, comments and messages, and the status of each Notification. Never: a token for a host that its Secret does
// not list, in a log or in a status; a redirected request.
package notify
