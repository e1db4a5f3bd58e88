// Package pinnedimage reads PinnedImageSets: which image names are valid, which sets a pool has, and which images its
// nodes pull and pin.
//
// In: PinnedImageSets and MachineConfigPools. Out: the sets of a pool, their images, a digest of both. Never: a
// registry, a container runtime.
package pinnedimage
