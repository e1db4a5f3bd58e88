// Package github uses GitHub's REST API for pull requests.
//
// In: a forge.Target. Out: comments and a commit status (https://docs.github.com/rest, version 2022-11-28). Never: a
// repository's contents; a request to any server except the target's.
package github
