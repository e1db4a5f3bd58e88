// Package contentsync brings the remote files of configs onto a machine before its node is drained.
//
// In: a host.Host with a content store, configs. Out: stored contents, texts about the progress, an *Error that says what
// the node waits for. Never: the cluster, a step of an update, a decision about the drain.
package contentsync
