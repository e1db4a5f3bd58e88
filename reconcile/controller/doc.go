// Package controller is the shell around reconcile's pure rooms: one file for each controller, each of the same shape:
// get the object, gather facts, decide, act, write one status.
//
// In: objects of the API server, trees of repositories. Out: objects of the API server. Never: a decision or a condition
// of its own; those are made in render, rollout, drain and status.
package controller
