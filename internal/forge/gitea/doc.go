// Package gitea uses the REST API of Gitea and Forgejo for pull requests.
//
// In: a forge.Target. Out: comments and a commit status (the API that each instance documents at /api/swagger, v1).
// Never: a repository's contents; a request to any server except the target's.
package gitea
