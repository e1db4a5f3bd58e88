// Package images brings the images of PinnedImageSets onto a machine: it checks their names, pulls what the machine
// lacks, and pins what it has.
//
// In: the names of images, a Runtime. Out: pulled and pinned images, or why one is missing. Never: the cluster, a
// program of the machine, a credential.
package images
