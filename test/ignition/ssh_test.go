package ignition

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// key is an SSH key.
type key struct{ private, public string }

func newKey(t *testing.T) key {
	t.Helper()
	at := filepath.Join(t.TempDir(), "key")
	output(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "admin", "-f", at)
	private, err := os.ReadFile(at)
	public, otherErr := os.ReadFile(at + ".pub")
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	return key{string(private), strings.TrimSpace(string(public))}
}

// put gives a machine the private key, with which it logs in to itself.
func (k key) put(root, name string) error {
	at := filepath.Join(root, "etc/keys", name)
	return errors.Join(put(at, k.private), os.Chmod(at, 0o600))
}

// serveSSH starts the machine's own sshd, with the settings of the machine.
func (m managed) serveSSH() {
	m.t.Helper()
	m.host.Sh("ssh-keygen -A; mkdir -p /run/sshd; /usr/sbin/sshd -p 2222")
}

// wantKeys asks a real sshd which keys log in, and looks at the files that it has them from.
func (m managed) wantKeys(d distribution, when string, leaves bool) {
	m.t.Helper()
	for name, may := range map[string]bool{"stays": true, "leaves": leaves} {
		out, err := m.host.Exec(m.t.Context(), "ssh", "-p", "2222", "-i", "/etc/keys/"+name, "-o", "BatchMode=yes",
			"-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"core@127.0.0.1", "true")
		if may != (err == nil) {
			m.t.Errorf("%s, the key that %s logs in: %t (%s)", when, name, !may, out)
		}
	}
	at := plainKeys
	if d.keys != "" {
		at = d.keys
	}
	settings := m.host.Do("/usr/sbin/sshd", "-T", "-C", "user=core,host=localhost,addr=127.0.0.1")
	reads := "authorizedkeysfile .ssh/authorized_keys"
	if at == fragmentKeys {
		reads = "authorizedkeyscommand /usr/libexec/ssh-key-dir %u"
	}
	if !strings.Contains(settings, reads) {
		m.t.Errorf("%s, sshd is not set to %q", when, reads)
	}
	for _, p := range []string{plainKeys, fragmentKeys} {
		got, err := m.host.Exec(m.t.Context(), "stat", "--format=%U %a", p)
		switch is := strings.TrimSpace(got); {
		case p != at && p != d.own:
			if err == nil {
				m.t.Errorf("%s, there is %s", when, p)
			}
		case err != nil, is != "core 600" && (d.own == "" || is != "core 644"):
			m.t.Errorf("%s, %s is %s, %v", when, p, is, err)
		}
	}
	if got := m.host.Do("stat", "--format=%U %a", "/home/core/.ssh"); strings.TrimSpace(got) != "core 700" {
		m.t.Errorf("%s, ~/.ssh is %s", when, got)
	}
}
