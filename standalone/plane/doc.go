// Package plane runs the processes of a local control plane on one data directory: it checks their ports, locks the
// directory, starts the processes, restarts them when they end, and stops them in reverse order.
//
// Every process leads its own process group, so Ctrl-C in the terminal reaches only the supervisor. The kernel ends a process
// with the supervisor, even after kill -9 (Pdeathsig). StopLeftovers finds remaining processes by their process records.
//
// In: the processes, their ports, a data directory. Out: running processes; a line for each event through
// SupervisorConfig.Report; who uses a port or the directory. Never: the tasks of the processes, a signal to a process
// that it did not start. Linux only.
package plane
