// Package arch holds the rules that keep the project in the shape of
// ARCHITECTURE.md: who may import whom, how long a file or a function may get,
// what must be documented. Each rule is a pure function from a parsed [Repo] to
// a list of [Violation], so each is tested on a small source tree that breaks it
// (testdata/*.txtar), and one test runs them all on the real repository.
//
// A rule that must be broken somewhere is named in exemptions.txt with the
// reason; an exemption that nothing needs any more is itself a violation.
//
// In: the source files of every module, and what the daemon's binary links.
// Out: violations, each with the place, the reason and what to do.
// Never: changes a file; decides by file contents that the compiler already judges.
package arch
