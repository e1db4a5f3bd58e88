// Package trace finds the commit that requested a rendered config, and the source and the rendered configs of a
// MachineConfig.
//
// In: MachineConfigs, GitSources and pools. Out: the trace, as data and as text. Never: I/O; the content of a
// repository's lines.
package trace
