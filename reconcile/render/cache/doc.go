// Package cache stores the results of package render by digests of the input. Every result equals that of
// render.Merge. If the cache is lost, renders only take longer.
//
// In: MachineConfigs of a pool, a cluster's default images. Out: what render.Merge returns for them. Never: a decision,
// any I/O; a cached result that is found by an object's address or resource version, because a caller may change the
// object.
package cache
