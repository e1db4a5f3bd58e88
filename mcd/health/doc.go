// Package health decides whether a machine lives with its new config, from what was seen of it. A Watch is told again and
// again what is seen, and says when it knows:
//
//	seen                                          counts as
//	a unit of the change is active, or inactive   well
//	without a failure (oneshot, condition)
//	it is starting, stopping or reloading         not known yet; well when the time is up: systemd still waits for it too
//	it waits to be started again (auto-restart)   not known yet; ill when the time is up
//	it failed                                     ill, once it has stayed so for the time to settle
//	the kubelet is not healthy, but was before    not known yet; ill when the time is up
//	the API server answers                        well
//	another machine refuses the connection        not known yet; well when the time is up: the network works, and an API
//	                                              server that is down for all is no reason for each node to go back
//	this machine refuses it, the server does not  not known yet; ill when the time is up, but in doubt: see Illness
//	take this node's credentials, or nothing
//	is heard of it at all
//
// The API server is asked about only after a reboot, and only where it answered right before the first step. All must be
// well for the time to settle without a break, so that a unit that dies right after its start is seen.
//
// In: a host.Record, what was seen, now. Out: the units to look at, healthy or not with the reason in words. Never: any
// I/O, a clock.
package health
