// Package kubelet turns what a repository says of the kubelet, as a KubeletConfiguration or a KubeletConfig, into the
// files that the kubelet reads.
//
// In: one document with its origins, and its pool. Out: a config with those files, or findings at the document's lines.
// Never: a field that decides whether a node comes back at all; a value that the document does not say.
package kubelet
