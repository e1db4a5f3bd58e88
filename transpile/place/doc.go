// Package place finds the path of the value that a problem of a config is about.
//
// In: the text of a problem, or an item of a config. Out: a path, as origin.Map has it. Never: a file, a position.
package place
