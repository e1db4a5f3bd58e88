// Package ignition lets the real Ignition judge the daemon and the server: what a machine looks like after the daemon
// brought it from one config to another must be what a new machine looks like that boots the other; and a new machine
// must get its config from our server, by a token, or nothing. It is a module of its own, because it builds Ignition
// (with cgo and libblkid) from its Go module, at the version that go.mod names. The tests need root, a C compiler,
// libblkid, systemctl, shadow-utils and apt-get; `make test-ignition` runs them, and fails where something is missing.
//
// Three things are judged:
//
//   - the suite that Ignition is released with, as far as it is about one root file system: no disks, no network. Each case
//     goes the whole way: transpiled where it is of a version that MachineConfigs have not, rendered with the configs of the
//     image below it, read, planned and applied by the daemon. Where the suite's checker cannot tell, because it stands on
//     imitations of useradd, or looks at presets, the real Ignition does the same, and the trees are compared;
//   - random configs: new machines boot what our server hands out, and a copy of one is moved to the other's config, and back.
//     No machine may be found to have drifted when it was just born;
//   - first boots, by this Ignition, by Debian's 2.14, which is taken out of its package, and by the last one of spec 2: from
//     a pointer config to a tree, and on to a running machine, with tokens good and bad, with and without gzip, by every
//     version of the pointer, before the server runs and before anything is rendered.
//
// What Ignition makes of answers, as its source has it (internal/resource) and these tests see it:
//
//   - 500 and above, and no answer at all (refused, hung up, no handshake, no header within 10 s): it asks again, after 200 ms
//     and then twice as long each time up to 5 s, without end. It does not look at Retry-After;
//   - any other answer than 200 and 204: it has asked once, logs only that it failed, and ends with an error. So does a body that
//     breaks off: nothing of it is written. The machine's next boot is a first boot again, and asks again: how often that is,
//     says the image's emergency.target;
//   - it shows headers that the pointer names (since 3.1.0) and user and password of a URL, but it has no client certificate to
//     show: no version of its config can name one. Certificates are for machines that fetch their config otherwise;
//   - it logs URLs with user and password, and no headers. After a redirect it sends no headers.
//
// Presets are wishes for systemd's first start, so the real systemctl does what that does (preset-all), and Ignition's
// file goes, as the daemon lets it go when it starts for the first time. Where two trees are compared, these are not
// looked at:
//
//   - Ignition's /etc/.ignition-result.json, the encapsulated config beside it, and the daemon's own records and node
//     annotations below /etc/machine-config-daemon and /var/lib/machine-config-daemon: notes of who did it, not of what;
//   - backups and locks of the account tools (/etc/passwd-, /etc/.pwd.lock and the like), the day of a password's last change,
//     the order of lines and members in account files: they tell who came first;
//   - numbers of accounts that no config says: the machine chooses them in the order in which accounts come. Owners are
//     compared by name;
//   - directories with nothing in them that belong to root with mode 0755: who needs one makes it, and nobody can tell who
//     else may need it;
//   - home directories of users who went: what people keep is theirs;
//   - the owner of a symbolic link where the config says none: Ignition gives it to whoever has what it leads to at that
//     moment, and it means nothing;
//   - what a link in .wants, .requires or .upholds leads to: systemd goes by its name; and such links for masked units, which
//     nothing starts.
//
// What differs on purpose, and is therefore not among the random configs:
//
//   - enabled: false for a unit that is not enabled yet writes no preset, so that a new machine enables it all the same where
//     the image's presets say so, or where another unit takes it along (Also). The daemon does what the config says;
//   - one masked instance of a template keeps systemd from enabling the others that the config enables. The daemon enables
//     them;
//   - a unit of the image that is enabled, and whose file a config replaces by one without [Install], keeps the image's link
//     on a new machine. Once a config has disabled it, nothing can make that link again;
//   - what a first config says of core beyond keys and password, and of other accounts of the image, stays or goes with it,
//     for nobody knows what the image had; the same holds for the modes and owners of directories, and the contents of files,
//     outside of /etc, of which images keep no copy;
//   - keys for a user without a home (noCreateHome): Ignition fails, the daemon makes the home;
//   - what disruption.Refuse refuses on a running node: another number or home, locking out.
//
// In: Ignition's suite, dice. Out: a verdict for each case and each way; the configs of a wrong one, made small. Never:
// anything outside of directories of its own, a machine that runs.
package ignition
