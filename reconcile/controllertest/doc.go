// Package controllertest has what the tests of several controllers need: a cluster in memory, a repository, events, and
// objects.
package controllertest
