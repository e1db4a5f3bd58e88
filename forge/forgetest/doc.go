// Package forgetest stands for the services that host pull requests: a recording HTTP server that speaks, for one pull
// request, the documented forms of GitHub's, GitLab's and Gitea's APIs.
//
// In: HTTP requests. Out: what comments and statuses they left. Never: an answer to a call that those documents do not have.
package forgetest
