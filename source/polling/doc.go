// Package polling lets the sources of one repository share data that they read from it: listings of its refs, and the
// commits that a check of signatures and of the history needs. So many sources of one repository cost about as many
// requests as one.
//
// In: the polls of sources, functions that read the repository. Out: refs, and when their listing began; evidence.
// Never: an answer that the repository gave to other credentials, a secret, a goroutine, a wait for another repository.
package polling
