// Package lint finds mistakes in a config that no parser refuses, and that users would notice only on a machine.
//
// In: the config of one document, with the origin of its values. Out: warnings. Never: an error.
package lint
