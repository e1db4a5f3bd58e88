// Package notifying has the controller of Notifications: it sends what reconcile/notify decides to git hosts, chats and
// webhooks. The controller runs in a process of its own, the notifier. Only this process reads the tokens for these
// receivers.
//
// In: Notifications with their Secrets, GitSources, pools, MachineConfigNodes. Out: requests to the receivers, and the
// status of each Notification. Never: a token for a host that its Secret does not list, or in a log or a status; a
// redirected request.
package notifying
