// Package forgetest simulates the services that host pull requests: an HTTP server with the documented calls of
// GitHub's, GitLab's and Gitea's APIs for one pull request.
//
// In: HTTP requests. Out: the recorded comments and statuses. Never: a success for a call that the APIs do not
// document.
package forgetest
