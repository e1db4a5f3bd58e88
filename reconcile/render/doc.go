// Package render turns a pool's MachineConfigs into the one config that its nodes run, named by its content. Merge is
// the function; the cluster and the preview of a change call it, so a config has the same name in the review as in the
// rollout. A Renderer keeps earlier results by the digests of their input, and its results are those of Merge: if it
// forgets, renders only take longer. The Controller writes the rendered config of each pool.
//
// In: MachineConfigs in any order, pools, the cluster's default images, GitSources. Out: a Rendered with the conflicts
// between its inputs, or every problem of every MachineConfig at once; rendered configs, spec.configuration and
// RenderDegraded of pools. Never: whether nodes accept the result, which package disruption decides; a write to a node;
// a result that is found by an object's address or version, because a caller may change the object.
package render
