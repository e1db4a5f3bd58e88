// Package contentsync brings the remote files of configs onto a machine before its node is drained. It downloads the
// files of the config that the node gets next in the background, while the agent does its other work. Only one of both
// uses the machine at a time.
//
// In: a host.Host with a content store, configs. Out: stored contents, texts about the progress, an *Error that says
// what the node waits for. Never: the cluster, a step of an update, a decision about the drain.
package contentsync
