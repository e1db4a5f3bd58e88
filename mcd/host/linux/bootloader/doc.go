// Package bootloader sets the kernel arguments of machines that run from packages or from partitions, in the files of
// their boot loader.
//
// In: a machine's files, the directory of its root. Out: host.OperatingSystem. Never: a change of other text in these
// files, an argument that GRUB would interpret, a part of the OS other than the kernel arguments.
package bootloader
