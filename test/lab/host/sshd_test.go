package host_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestInsideSSHKeysThatNobodyReads asks the machine's own sshd, as it is set up and as somebody sets it up for one
// user, when an update writes keys.
func TestInsideSSHKeysThatNobodyReads(t *testing.T) {
	const settings = "/etc/ssh/sshd_config.d/50-keys.conf"
	for user, says := range map[string]string{
		"reads": "",
		"other": "AuthorizedKeysFile is /etc/ssh/keys/%u. Add .ssh/authorized_keys to it",
	} {
		t.Run(user, func(t *testing.T) {
			h := open(t)
			sh(t, "mkdir -p /run/sshd && ssh-keygen -A && useradd -m "+user)
			write(t, settings, "Match User other\n  AuthorizedKeysFile /etc/ssh/keys/%u\n")
			keys := `"passwd":{"users":[{"name":"` + user + `","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]}]}`
			to := configOf(t, "rendered-b", keys)
			accounts, err := apply.Accounts(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			w := plan.NewTransition(plan.Config{}, to, plan.Rules{Policy: disruption.Default()}, accounts)
			observed, err := apply.Observe(t.Context(), h, w.Scope())
			if err != nil {
				t.Fatal(err)
			}
			p, _ := w.Plan(observed, []byte("{}"))
			notes := strings.Join(apply.UnreadKeys(t.Context(), h, p, w), "\n")
			if (notes != "") != (says != "") || !strings.Contains(notes, says) {
				t.Errorf("it notes %q, want %q\n%s", notes, says, p)
			}
		})
	}
}
