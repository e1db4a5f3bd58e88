// Package pinning tells nodes which PinnedImageSets they pull and pin, a few nodes at a time. Next decides which nodes
// of a pool pull now, and the Controller writes that to the Nodes, also when a pool has no sets any more.
//
// In: PinnedImageSets, pools, Nodes with what they report, the time. Out: v1alpha1.PinAnnotation on Nodes, and when the
// decision may differ without an event. Never: another annotation, a registry, a decision about a drain.
package pinning
