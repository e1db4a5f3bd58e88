// Package watch reports that watched paths of a machine may have changed, and that a user logged in over SSH. Package
// watch uses inotify.
//
// In: a machine's files, paths. Out: signals. Never: what has changed, a write.
package watch
