// Package fault classifies failures by their remedy: a retry, an event, or a user.
//
// In: an error and a reason. Out: an error with its kind. Never: a decision on when to retry.
package fault
