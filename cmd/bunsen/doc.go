// Command bunsen is what people type: it validates, builds and compares config repositories without a cluster, by the
// very functions that the controllers run, shows a cluster's state and where it came from, says why a rollout waits,
// steers it, and lets new machines in.
//
// In: flags, a directory or git revisions, a kubeconfig. Out: tables, diffs, YAML and JSON on standard output; a live screen
// on a terminal; marks on pools and nodes by pause, resume and retry; provisioning tokens by token and pointer.
// Never: a change to a cluster by any other verb; logic of its own.
package main
