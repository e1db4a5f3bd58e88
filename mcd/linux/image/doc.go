// Package image sets the kernel arguments of machines that run from packages or from partitions, in the files of
// their boot loader.
//
// In: a machine's files, the directory of its root. Out: host.OperatingSystem. Never: a change of other text in these
// files, an argument that GRUB would interpret, a part of the OS other than the kernel arguments.
//
// The part ostree changes the OS of a machine through the machine's own rpm-ostree or bootc: image, kernel arguments,
// kernel type and extensions, staged for the next boot.
//
// In: a machine's files, the directory of its root. Out: host.OperatingSystem. Never: a change of the running
// deployment, the output of a program in a log, a secret of a registry in an error.
package image
