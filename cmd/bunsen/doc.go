// Command bunsen is what people type: it validates, builds and compares config repositories without a cluster, by the
// very functions that the controllers run, and shows a cluster's state and where it came from.
//
// In: flags, a directory or git revisions, a kubeconfig. Out: tables, diffs, YAML and JSON on standard output.
// Never: a change to a cluster; logic of its own.
package main
