// Package fault sorts failures by what helps: trying again, waiting, or a person.
//
// In: an error and a reason. Out: an error that says its kind. Never: a decision on when to try again.
package fault
