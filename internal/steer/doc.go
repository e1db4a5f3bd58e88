// Package steer builds the changes of a cluster that pause, resume or retry: merge patches, and notes for the user.
//
// In: a cluster's objects, the user's request, now. Out: patches with the equivalent kubectl command, and notes. Never:
// I/O; the change itself.
package steer
