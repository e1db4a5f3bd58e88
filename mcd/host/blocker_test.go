package host_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestTheShortageInBoot(t *testing.T) {
	const kib = 1 << 10
	for says, c := range map[string]struct {
		s    host.BootSpace
		want string
	}{
		"nothing is known":   {},
		"enough":             {s: host.BootSpace{At: "/boot", Free: 9 * kib, Least: 9 * kib, Likely: 9 * kib}},
		"too little for all": {host.BootSpace{At: "/boot/grub", Free: kib, Least: 2*kib - 1}, "the file system /boot/grub has 1 KiB free, and the update needs 2 KiB: see df /boot/grub"},
		"too little for a kernel": {
			host.BootSpace{At: "/boot", Free: 9 * kib, Least: kib, Likely: 90 * kib},
			"the file system /boot has 9 KiB free, and another kernel like the one that runs needs 90 KiB: see " +
				"df /boot",
		},
	} {
		if got := c.s.Shortage(); got != c.want {
			t.Errorf("%s: %q, want %q", says, got, c.want)
		}
	}
}
