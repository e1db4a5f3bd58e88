// Package registries turns the objects that say where images come from into files for container runtimes: mirrors of
// registries, blocked and insecure registries, and signature policies.
//
// In: all such documents of one pool, with their origins. Out: one config with the files of CRI-O and containerd, or
// findings at the lines of the documents. Never: a file whose content depends on where a document is; credentials; a
// setting that a runtime does not have without a finding.
package registries
