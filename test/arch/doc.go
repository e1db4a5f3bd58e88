// Package arch has the rules for the structure in ARCHITECTURE.md: which package may import which, how long a
// line may be, which symbols need documentation. Each rule is a pure function from a parsed [Repo] to a list of
// [Violation]. A test checks it on a small source tree that breaks it (testdata/*.txtar), and one test runs all rules
// on the real repository.
//
// A necessary violation of a rule is listed in exemptions.txt with its reason. An exemption that is no longer needed is
// itself a violation.
//
// In: the source files of every module, and the packages that the daemon's binary links. Out: violations, each with the
// place, the reason and what to do. Never: a change of a file; a rule that the compiler already checks.
package arch
