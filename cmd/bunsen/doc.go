// Command bunsen is the command line for users. It validates, builds and compares config repositories without a
// cluster, with the same code as the controllers. Command bunsen also shows the state of a cluster and where it comes
// from, says why a rollout waits, pauses or retries rollouts, and creates tokens for new machines.
//
// In: flags, a directory or git revisions, a kubeconfig. Out: tables, diffs, YAML and JSON on standard output; a live
// screen on a terminal; marks on pools and nodes by pause, resume and retry; provisioning tokens by token and pointer.
// Never: a change to a cluster by any other verb; logic of its own.
package main
