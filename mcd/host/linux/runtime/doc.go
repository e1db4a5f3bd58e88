// Package runtime pulls and pins images with the programs of a machine: crictl for both runtimes, ctr for containerd,
// and a drop-in file of CRI-O.
//
// In: names of images that package images has checked. Out: pulled images, pins, a record of the pins. Never: a
// credential as argument or in the environment, a link to the code of a runtime.
package runtime
