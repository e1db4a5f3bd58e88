// Package forecast checks that what a review says before a merge is what a daemon does after it: the two never see each
// other, and share one function.
//
// In: changes, as sentences. Out: tests that compare a review's JSON with the record of a simulated machine. Never:
// code that ships.
package forecast
