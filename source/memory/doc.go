// Package memory is the budget of memory that all sources of a process share, and reads answers within their limits.
//
// In: readers of answers. Out: the same bytes, or an error that says what is too long or what the reader waits for.
// Never: more memory than the budget; a source that waits for ever.
package memory
