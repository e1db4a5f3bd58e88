// Package health decides whether a machine is healthy with its new config, from repeated observations. Watch.Observe
// takes one observation and returns true once the result is known:
//
//	observation                                    counts as
//	a unit of the change is active, or inactive    healthy
//	without a failure (oneshot, condition)
//	a unit starts, stops or reloads                unknown yet; healthy at the limit, because systemd still waits for it too
//	a unit waits for a restart (auto-restart)      unknown yet; unhealthy at the limit
//	a unit failed                                  unhealthy, once it has stayed so for the settle time
//	the kubelet is unhealthy, and was healthy      unknown yet; unhealthy at the limit
//	the API server answers                         healthy
//	another machine refuses the connection         unknown yet; healthy at the limit: the network works, and during an outage of the API
//	                                               server no node should roll back
//	this machine refuses the connection, the API   unknown yet; unhealthy at the limit, and Failure.Unconfirmed
//	server rejects the node's credentials, or
//	does not answer
//
// The API server is checked only after a reboot, and only if it answered right before the first step. Everything must
// be healthy for the whole settle time, so that the check finds a unit that stops soon after its start.
//
// In: a host.Record, observations, now. Out: the units to check, and whether the machine is healthy or why not. Never:
// I/O, a clock.
package health
