// Package report writes a comparison for people: as text for a terminal, as Markdown for a pull request, as one line
// for a status. It also writes findings as CI systems show them at their lines: SARIF, workflow commands of GitHub, a
// report of GitLab or JUnit, JSON, plain lines.
//
// In: a comparison of package review, findings. Out: texts in which nothing of the repository is markup, a command or a
// hidden character. Never: a decision; I/O; a fact that the comparison does not have; a missing finding.
package report
