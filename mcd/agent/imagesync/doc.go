// Package imagesync pulls and pins the images of a node's PinnedImageSets in the background, while the agent does its
// other work, and reports about it.
//
// In: the sets that the controller names on the Node, a container runtime. Out: pulled and pinned images,
// v1alpha1.PinReport on the Node, the status of the MachineConfigNode. Never: a drain, a step of an update, a decision
// about the rollout.
package imagesync
