// Package bootloader sets the kernel arguments of machines that run from packages or from partitions, in the files of their boot loader.
//
// In: a machine's files, the directory of its root. Out: host.OperatingSystem. Never: a change of what others wrote into these files, an argument
// that GRUB would read as anything but itself, another part of the OS than its arguments.
package bootloader
