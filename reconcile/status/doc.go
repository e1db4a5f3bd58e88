// Package status turns facts into the status of a MachineConfigPool and of a GitSource. It is the only place that builds
// conditions, so every text that a person reads in a condition is written here.
//
// Each function takes the status as it was and returns the status as it should be; equal facts give an equal status, so
// a caller patches only where the two differ. Nothing of the old status is shared with the new one to be written to.
//
// In: the old status, facts, and now. Out: the new status.
// Never: reads a clock, writes to the API, or lets a text grow beyond what the API takes.
package status
