// Package apply walks a plan through a host's ports, keeps the journal, takes everything back when a step fails, and
// finds its way out after a crash: a machine is in the old config or in the new one, never between.
//
// How that holds: every step makes something be a certain way, so doing it twice is doing it once, and so is taking it
// back. Before the first step, what the steps replace is in the store and the whole plan is in the journal. Whoever finds
// a journal therefore needs nobody else to finish:
//
//	phase       found after a crash, it means       Recover
//	applying    any of the steps may be done        takes all back
//	undoing     any of the steps may be undone      takes all back
//	rebooting   all done, same boot                 asks for the reboot again
//	rebooting   all done, another boot              confirms what booted, then clears; or takes all back
//	committed   all done                            clears
//
// In: a host.Host, a plan, contents. Out: Applied, the observed State. Never: the cluster, the clock, a decision about
// what to do; contents in an error.
package apply
