// Package apply walks a plan through a host's ports, keeps the journal, takes everything back when a step fails, and
// finds its way out after a crash: a machine is in the old config or in the new one, never between.
//
// How that holds: every step makes something be a certain way, so doing it twice is doing it once, and so is taking it
// back. Before the first step, what the steps replace is in the store and the whole plan is in the journal, both durable.
// The steps themselves are made durable together, with one flush, before the journal says that they are done or is cleared. Whoever
// finds a journal therefore needs nobody else to finish:
//
//	phase       found after a crash, it means       Recover
//	applying    any of the steps may be done        takes all back, and tells that it was interrupted
//	undoing     any of the steps may be undone      takes all back
//	rebooting   all done, same boot                 asks for the reboot again
//	rebooting   all done, another boot              confirms what booted, asks the Gate, then clears; or takes all back
//	judging     all done, no reboot needed          asks the Gate, then clears; or takes all back
//	returning   all taken back, same boot           asks for the reboot again
//	returning   all taken back, another boot        tells that the config is rejected, then clears
//
// A power cut loses any part of what was not flushed, and boots the machine with what is left. So taking back looks at
// what is there and not at what was done, and an update with a reboot that was cut goes back with a reboot too: whatever
// runs has begun with a part of the new config.
//
// In: a host.Host, a plan, contents. Out: Applied, the observed State. Never: the cluster, the clock, a decision about
// what to do; contents in an error.
package apply
