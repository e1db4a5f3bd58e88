// Package annotate writes the findings of a repository in the formats of continuous-integration systems, which show
// them at their lines in a pull request.
//
// In: findings. Out: SARIF 2.1.0, workflow commands of GitHub Actions (also read by Gitea and Forgejo), a Code Quality
// report of GitLab, JSON, plain lines. Never: a missing finding; a finding whose text the CI system runs as a command.
package annotate
