// Package kube has the functions that all controllers use with the API server: they send events, write statuses,
// choose watches, and find the field manager that changed a field.
//
// In: objects of the API server and of the manager's cache. Out: events, statuses, reconcile requests. Never: a
// decision about a pool, a node or a source.
package kube
