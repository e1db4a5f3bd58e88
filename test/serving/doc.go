// Package serving checks what new machines get of the example repositories: every pool's rendered config, in every
// version of Ignition that can be asked for, by that version's own parser, and merged into the pointer that a machine
// has.
//
// In: examples/. Out: tests, and the golden of which example can be said in which version. Never: code that ships.
package serving
