package agent_test

import (
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// TestANodeMovesItsKeys: a machine that was born with its keys in the file of another sshd is no drifted machine, and
// neither is one whose operating system changed: the daemon moves the keys without an update.
func TestANodeMovesItsKeys(t *testing.T) {
	const (
		plain, fragment = "/home/core/" + distribution.KeysFile, "/home/core/" + distribution.KeysFragment
		line            = "ssh-ed25519 AAAA"
		config          = `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["` + line + `"]}]}`
	)
	own := host.Entry{Kind: host.File, Mode: 0o600, Owner: host.Owner{UID: 1000, GID: 1000}}
	for name, c := range map[string]struct {
		release, born, drifts, want, reason string
	}{
		"born with the file":         {"ID=sl-micro\n", plain, "", plain, ""},
		"born with the fragment":     {"ID=sl-micro\n", fragment, "", plain, ""},
		"the fragment of CoreOS":     {"ID=rhcos\n", fragment, "", fragment, ""},
		"the file of a CoreOS":       {"ID=rhcos\n", plain, "", fragment, ""},
		"a fragment that drifted":    {"ID=sl-micro\n", fragment, "ssh-ed25519 EVIL", fragment, "content mismatch"},
		"the file of an own program": {"ID=sl-micro\n", plain, "ssh-ed25519 EVIL", plain, "content mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.m.Put("/usr/lib/os-release", c.release)
				r.m.Put("/usr/libexec/ssh-key-dir", "")
				r.c.add(t, "rendered-keys", config)
				write := func(text string) {
					r.must(r.m.Host().Files.Write(c.born, own, []byte(text)))
				}
				for _, dir := range []string{"/home/core/.ssh", "/home/core/.ssh/authorized_keys.d"} {
					r.must(r.m.Host().Files.Mkdir(dir, host.Entry{Kind: host.Dir, Mode: 0o700, Owner: own.Owner}))
				}
				write(line + "\n")
				r.c.annotations["machineconfiguration.openshift.io/currentConfig"] = "rendered-keys"
				r.c.desire("rendered-keys")
				if c.drifts != "" {
					write(c.drifts + "\n")
					_ = r.settle()
					r.c.says(t, "Degraded", "rendered-keys", c.reason)
					if got := r.disk(c.want); got != c.drifts+"\n" {
						t.Errorf("%s has %q", c.want, got)
					}
					return
				}
				r.must(r.settle())
				r.c.says(t, "Done", "rendered-keys")
				for _, at := range []string{plain, fragment} {
					is, err := r.m.Host().Files.Stat(at)
					if there := is.Kind != host.Absent; err != nil || there != (at == c.want) {
						t.Errorf("%s is %+v, %v", at, is, err)
					}
				}
				if got := r.disk(c.want); got != line+"\n" {
					t.Errorf("%s has %q", c.want, got)
				}
			})
		})
	}
}
