// Package status turns facts into the status of a MachineConfigPool, of a GitSource and of the whole cluster. It is the
// only place that builds conditions, so it has every text of a condition.
//
// Each function gets the old status and returns the new one. Equal facts produce an equal status, so a caller patches
// only if the two differ. The new status shares no memory with the old one.
//
// In: the old status, facts, and the current time. Out: the new status.
// Never: reads a clock, writes to the API, or a text longer than the API allows.
package status
