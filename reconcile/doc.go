// Package reconcile constructs the controllers and adds them to a manager. Each controller is a package below this
// one. Every controller reads objects, decides with a pure function from a package outside this directory, and writes.
//
// In: a manager and the configuration of the process. Out: running controllers. Never: a decision of its own.
package reconcile
