// Package history says what happened, and where it came from: the rollouts of a pool with their results and the commits
// that no rollout brought to it; when each node took each step of an update; and which commit asked for a rendered
// config.
//
// In: the records of pools, the histories of GitSources, MachineConfigs, MachineConfigNodes and events. Out: rows,
// timelines and traces, as data and as text. Never: I/O; a guess; a result that the controller has not recorded; the
// lines of a repository.
package history
