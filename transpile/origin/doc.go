// Package origin keeps where each part of an output came from.
//
// In: output paths and repository positions, one map for each step. Out: composed maps. Never: guessing; a path
// without an origin of its own has its nearest parent's.
package origin
