// Command simulated-host is the daemon of a simulated host: its disk is a directory, its reboots are pauses, and it
// keeps its Node Ready as a kubelet does. It needs no rights.
//
// In: flags. Out: a running agent; lines of what a real host would run; exit codes. Never: the host on which it runs.
package main
