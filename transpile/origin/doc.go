// Package origin records where each part of an output comes from.
//
// In: output paths and repository positions, one map for each step. Out: composed maps. A path without an origin of its
// own has the origin of its nearest parent. Never: a guessed origin.
package origin
