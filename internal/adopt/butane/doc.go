// Package butane writes an Ignition config as a readable Butane document: inline text, local files, few data: URLs.
//
// In: the JSON of an Ignition config, and whether to keep its exact encoding. Out: a YAML tree, the files beside the
// document, and which contents are secret or stay encoded. Never: I/O; contents that are not in the config.
package butane
