// Package plane runs the processes of a local control plane on one data directory: it checks the ports of the
// processes, locks the directory, starts the processes, restarts a process when it ends, and stops the processes in
// reverse order.
//
// Every process leads its own process group, so Ctrl-C in the terminal reaches only the supervisor. The kernel ends
// each process when the supervisor ends (Pdeathsig), even if a user ended the supervisor with kill -9. StopLeftovers
// finds processes of an earlier supervisor by their process records.
//
// In: the processes, their ports, a data directory. Out: running processes; a line for each event through
// SupervisorConfig.Report; who uses a port or the directory. Never: the tasks of the processes, a signal to a process
// that package plane did not start. Linux only.
package plane
