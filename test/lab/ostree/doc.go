// Package ostree is real OSTree hosts for tests: /usr is read-only and comes from a commit, /etc is merged at each
// update, a change of the OS is staged and there after the next boot, with kernel arguments in /proc/cmdline, and the
// way back is one more. They run in systemd-nspawn, as all hosts of test/lab do; the harness plays the boot loader, and
// boots the newest entry that ostree wrote for one.
//
//	h := Start(t, Options{Name: "one"})
//	h.Commit("registry.example/os:2", func(root string) error { … })
//	h.Do("rpm-ostree", "rebase", "--experimental", "ostree-unverified-registry:registry.example/os:2")
//	h.Do("systemctl", "reboot")
//	h.AwaitBoot(t.Context(), 2)
//	h.Booted().Image // registry.example/os:2
//
// rpm-ostree is a stand-in (see front) over the real ostree, since Debian has none; its registry is a directory.
//
// In: what test/lab needs, and the ostree program. Out: running hosts. Never: a kernel of their own, packages in
// layers.
package ostree
