// Package unit finds the parts of a unit that systemd would ignore: sections and directives that systemd does not know.
//
// In: the name and the text of a unit or drop-in. Out: problems with their lines, and where these lines are in the
// repository. Never: a check or a quotation of the values of directives.
package unit
