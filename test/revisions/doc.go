// Package revisions plays random histories of repositories and a cluster, and checks the promise of a revision: every
// rendered config that a node was ever assigned is what one whole revision of each repository renders to.
//
// The source controller and the render controller are the real ones, with the real transpiler. The API server around
// them is simulated: it keeps objects with versions, knows server-side apply, and sends its events to one cache per
// controller and kind, each of which may lag. The rollout controller is a small model that waits for the same pure
// functions as the real one. A step of a history can come between any two writes of the source controller: a crash, a
// lost answer, a refused write, an editObject by a user, a render, a rollout.
//
// A History is a Setup and a list of Steps. Random makes both from a seed, so that a history can be played again.
// Shrink takes steps away as long as the same Rule is broken.
//
// In: a seed. Out: the first broken rule with its story. Never: a clock, a goroutine, any I/O.
package revisions
