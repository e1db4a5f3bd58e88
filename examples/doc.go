// Package examples holds whole config repositories. Each is a document to read and to copy, and a case of the tests.
//
// In: nothing. Out: directories, and the checks of a pull request that bunsen writes into new repositories. Never: code
// that anything but a test runs.
package examples

import "embed"

// CI has the checks of pull requests.
//
//go:embed ci/github ci/gitlab/.gitlab-ci.yml ci/forgejo
var CI embed.FS
