// Package supervise keeps child processes running: it starts them, starts them
// again when they die, and stops them in reverse order.
//
// Every child leads its own process group, so a Ctrl-C in the terminal reaches
// only the supervisor. A child dies with the supervisor, even by kill -9: the
// kernel sends it SIGKILL (Pdeathsig). What outlives the supervisor all the
// same is found by the process records that it left, see Sweep.
//
// In: what to run; folders for logs and process records.
// Out: running processes; one line per event through Config.Report.
// Never: knows what the processes are, signals one that it did not start. Linux only.
package supervise
