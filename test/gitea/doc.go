// Package gitea pins the Gitea that the stories of test/e2e/testdata/gitea run against. The Makefile builds it from its
// module.
//
// In: nothing. Out: nothing. Never: a part of Bunsen.
package gitea
