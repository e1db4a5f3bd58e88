// Package status turns facts into the status of a MachineConfigPool, of a GitSource and of the whole cluster. Only this
// package builds conditions, so it has the text of every condition.
//
// Each function gets the old status and returns the new status. Equal facts produce an equal status, so a caller
// patches only if the two differ. The new status shares no memory with the old status.
//
// In: the old status, facts, and the current time. Out: the new status. Never: a clock, a write to the API, or a text
// that is longer than the API allows.
package status
