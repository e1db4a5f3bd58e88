// Package apply applies a plan through a host's ports with a journal, rolls everything back when a step fails, and
// recovers after a crash: a machine is in the old config or in the new one, never between.
//
// The daemon can repeat every step and its inverse without harm. Before the first step, the store has the data that the
// steps replace, and the journal has the whole plan. Store and journal are durable by then. One flush makes all steps
// durable before the journal records that they are done, or is cleared. So the daemon needs only the journal to
// continue:
//
//	phase       found after a crash, it means       Recover
//	applying    any of the steps may be done        rolls back; the cause is an interruption
//	undoing     any of the steps may be undone      rolls back
//	rebooting   all done, same boot                 looks whether the machine goes down; if not, requests it again
//	rebooting   all done, another boot              compares what booted, checks the health, then clears; or rolls back
//	judging     all done, no reboot needed          checks the health, then clears; or rolls back
//	returning   all rolled back, same boot          looks whether the machine goes down; if not, requests it again
//	returning   all rolled back, another boot       reports the rejection, then clears
//
// A missing answer to the request for the reboot is no failure. The machine may be going down, so nothing is rolled
// back, and the journal stays as it is (ADR 35).
//
// A power cut can remove any change that was not flushed, and the machine boots with the rest. So a rollback reads the
// present state of each path. The rollback of an update with a reboot also reboots, because running services may have
// started with a part of the new config.
//
// In: a host.Host, a plan, contents. Out: Applied, the observed State, the config in force. Never: the cluster, the
// clock, a decision about what to do; contents in an error.
package apply
