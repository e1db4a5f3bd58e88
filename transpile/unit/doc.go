// Package unit finds what systemd would ignore in a unit: sections and directives that it does not know.
//
// In: the name and the text of a unit or drop-in.
// Out: problems with their lines, and where these lines are in the repository.
// Never: judges the values of directives, or quotes them.
package unit
