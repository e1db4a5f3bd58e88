// Package window says whether a time lies in a maintenance window, and until when.
//
// A window opens as its schedule says, in the wall-clock time of its zone, and stays open for a duration of elapsed time.
// A schedule that names hours opens once for each time that it names: a time that the clocks skip opens at the moment
// they jump, and one that comes twice opens at the first. A schedule of every hour follows the hours as they pass: what
// is skipped does not open, and what comes twice opens twice.
//
// In: windows and a time. Out: open or closed, when that changes, and which window decides. Never: a clock, any I/O but the
// reading of time zones.
package window
