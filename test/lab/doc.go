// Package lab is real hosts for tests: Debian with its own systemd, logind, D-Bus and shadow-utils, booted in a second
// in systemd-nspawn. A host can be rebooted from inside, can lose its power, and is gone when its test ends; what a
// killed run left behind is swept by the next one.
//
//	Need(t)
//	h := Start(t, Options{Name: "one"})
//	h.Do("systemctl", "reboot")
//	h.AwaitBoot(t.Context(), 2)
//
// A host's root is an overlay on a cached base, so it costs nothing to make and its changes end with it. Its network is
// a namespace of its own: what it reaches of the test is what the test listens on, on a Network's address, and nothing
// else.
//
// In: BUNSEN_LAB=1, root, and the machine's own apt configuration, from which the base is made once. Out: running
// hosts. Never: a skip where a part is missing, a mirror's name, anything of the machine that outlives the test but the
// cache (${XDG_CACHE_HOME:-~/.cache}/bunsen-lab).
package lab
