// Package image changes the OS of a machine, below the directory of its root.
//
// A machine that runs from an OSTree image has rpm-ostree or bootc (DetectOSTree). Image, kernel arguments, kernel type
// and extensions are staged with that program for the next boot; the deployment that runs does not change. A machine
// that runs from packages or from partitions keeps its OS: only its kernel arguments can change, in the files of its
// boot loader (DetectBootLoader), of which all other text stays.
//
// In: the files of the machine, the directory of its root, steps to stage. Out: host.OperatingSystem, host.BootChecker.
// Never: a change of the running deployment, an argument that GRUB would interpret, the output of a program in a log, a
// secret of a registry in an error.
package image
