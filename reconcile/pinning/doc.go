// Package pinning decides which nodes of a pool pull the images of its PinnedImageSets now.
//
// In: the nodes of a pool with what they report, and the sets of the pool. Out: the values of v1alpha1.PinAnnotation
// that change, and when the decision may differ without an event. Never: a clock, a decision about a drain.
package pinning
