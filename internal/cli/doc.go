// Package cli has the parts that all verbs of bunsen share: exit codes, output forms, durations on the command line.
//
// In: errors and values. Out: text, JSON or YAML on a writer. Never: a cluster, a repository, the task of a verb.
package cli
