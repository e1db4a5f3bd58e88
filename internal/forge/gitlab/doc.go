// Package gitlab uses GitLab's REST API for merge requests.
//
// In: a forge.Target. Out: notes and a commit status (https://docs.gitlab.com/api, v4). Never: a repository's contents;
// a request to another server than the one named.
package gitlab
