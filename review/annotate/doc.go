// Package annotate writes the findings of a repository the way that a continuous-integration system reads them, so that
// they appear at their lines in a pull request.
//
// In: findings. Out: SARIF 2.1.0, workflow commands of GitHub Actions (also read by Gitea and Forgejo), a Code Quality
// report of GitLab, JSON, plain lines. Never: a finding left out; a finding's text taken for a command.
package annotate
