// Package github speaks GitHub's REST API for pull requests.
//
// In: a forge.Target. Out: comments and a commit status (https://docs.github.com/rest, version 2022-11-28). Never: a
// repository's contents; a request to another server than the one named.
package github
