// Package content reads what a change does to each item of a config, and writes it as a difference for people.
//
// In: the changes that package policy found, both configs, and the secret paths. Out: attributes and unified diffs,
// with a digest in place of each secret. Never: I/O; a secret; a decision about the disruption of a change.
package content
