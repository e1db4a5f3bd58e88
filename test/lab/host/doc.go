// Package host proves mcd/linux on a real systemd: the conformance suite, what services do when they are reloaded
// and restarted, enablement beside systemctl's own, users and groups by the real shadow-utils, and reboots through
// logind with somebody who minds. Its test binary runs a second time, inside of a host of test/lab, where "/" is the
// machine.
//
// In: BUNSEN_LAB=1 (make test-host). Out: tests. Never: code that ships.
package host
