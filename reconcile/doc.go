// Package reconcile constructs the controllers and adds them to a manager. Each is a package below this one: it reads
// objects, decides with a pure function, and writes.
//
// In: a manager and the configuration of the process. Out: running controllers. Never: a decision of its own.
package reconcile
