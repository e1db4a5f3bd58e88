// Package pinning tells nodes which PinnedImageSets they pull and pin, a few nodes at a time. It also tells them when
// their pool has no sets any more.
//
// In: events of PinnedImageSets, MachineConfigPools and Nodes. Out: v1alpha1.PinAnnotation on Nodes. Never: another
// annotation, a registry.
package pinning
