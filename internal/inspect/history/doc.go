// Package history lists the rollouts of a pool and their results, and the commits that no rollout brought to it.
//
// In: a pool's records of its rollouts, the histories of GitSources, rendered configs. Out: rows, as data and as text;
// notes on lost records. Never: I/O; a result that the controller has not recorded.
package history
