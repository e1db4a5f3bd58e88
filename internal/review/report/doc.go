// Package report writes a comparison for people: as text for a terminal, as Markdown for a pull request, as one line
// for a status.
//
// In: a comparison of package review. Out: texts in which the repository's content contains neither markup nor hidden
// characters. Never: a decision; I/O; a fact that the comparison does not have.
package report
