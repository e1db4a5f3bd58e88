package plan_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestAMachineThatWasBornWithoutSecretsIsSeenAsThat brings a machine to what the server serves of a config, and asks
// what it was born with.
func TestAMachineThatWasBornWithoutSecretsIsSeenAsThat(t *testing.T) {
	const (
		base   = `{"path":"/etc/app/app.conf","contents":{"source":"data:,port%3D1"}}`
		key    = `{"path":"/etc/app/tls.key","contents":{"source":"data:,hunter2"}}`
		plain  = `{"name":"app.service","enabled":true,"contents":"[Service]\nExecStart=/usr/bin/app\n[Install]\nWantedBy=multi-user.target\n"%s}`
		login  = `{"name":"app.service","enabled":true,"contents":"[Service]\nExecStart=/usr/bin/app --token hunter2\n[Install]\nWantedBy=multi-user.target\n"%s}`
		dropin = `,"dropins":[{"name":"10-x.conf","contents":"[Service]\nNice=1\n"}]`
		hidden = `,"dropins":[{"name":"10-x.conf","contents":"[Service]\nEnvironment=TOKEN=hunter2\n"}]`
	)
	storage := func(files string) string { return `"storage":{"files":[` + files + `]}` }
	units := func(list string, args ...any) string {
		return `"systemd":{"units":[` + fmt.Sprintf(list, args...) + `]}`
	}
	for sentence, c := range map[string]struct {
		whole, served, changed string
		// born is what it is seen to be born with, where that is not what was served.
		born string
		// marked are the paths that users mark as secret.
		marked secretmask.Paths
	}{
		"all of it":                              {whole: storage(base), served: storage(base)},
		"a file":                                 {whole: storage(base + "," + key), served: storage(base)},
		"a file that is there after all":         {whole: storage(base + "," + key), served: storage(base + "," + key)},
		"a file that another server withheld":    {whole: storage(base), served: storage("")},
		"a file that somebody edited":            {whole: storage(base), served: storage(base), changed: "/etc/app/app.conf"},
		"a secret that the image has another of": {whole: storage(base + "," + key), served: storage(base), changed: "/etc/app/tls.key", marked: secretmask.Paths{"/etc/app/tls.key"}},
		"a marked file that the image has another of": {
			whole:  storage(base + `,{"path":"/etc/vault/a","contents":{"source":"data:,plain"}}`),
			served: storage(base), changed: "/etc/vault/a", marked: secretmask.Paths{"/etc/vault/"},
		},
		"a marked unit that the image has another of": {whole: units(plain, ""), served: units(""), changed: "/etc/systemd/system/app.service", marked: secretmask.Paths{"app.service"}},
		"what is appended to a file of the image": {
			whole:  storage(base + `,{"path":"/etc/zz.conf","append":[{"source":"data:,password%3Dhunter2"}]}`),
			served: storage(base), marked: secretmask.Paths{"/etc/zz.conf"},
		},
		"what is appended to a file, and no secret, that somebody took out": {
			whole:  storage(`{"path":"/etc/zz.conf","append":[{"source":"data:,port%3D1"}]}`),
			served: storage(``),
			born:   storage(`{"path":"/etc/zz.conf","append":[{"source":"data:,port%3D1"}]}`),
		},
		"a hard link with its file": {
			whole: `"storage":{"files":[` + key +
				`],"links":[{"path":"/etc/app/again","target":"/etc/app/tls.key","hard":true},{"path":"/etc/app/soft","target":"tls.key"}]}`,
			served: `"storage":{"links":[{"path":"/etc/app/soft","target":"tls.key"}]}`,
		},
		"a unit":                    {whole: units(login, ""), served: units("")},
		"a unit, but not a drop-in": {whole: units(login, dropin), served: units(`{"name":"app.service"%s}`, dropin)},
		"a drop-in, and with it whether the unit is enabled": {
			whole: units(plain, hidden), served: units(plain, ""),
			born: units(
				`{"name":"app.service","contents":"[Service]\nExecStart=/usr/bin/app\n[Install]\nWantedBy=multi-user.target\n"}`),
		},
		"a password": {
			whole:  `"passwd":{"users":[{"name":"core","passwordHash":"$6$a$hunter2","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]}]}`,
			served: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]}]}`,
		},
		"a password of a user that the config makes": {
			whole: users(`{"name":"alice","passwordHash":"$6$a$hunter2"}`), served: users(`{"name":"alice"}`),
		},
		"a user whom somebody removed": {
			whole: users(`{"name":"alice","passwordHash":"$6$a$hunter2"}`), served: users(``),
			born: users(`{"name":"alice","passwordHash":"$6$a$hunter2"}`),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			nothing, whole, served := ignition(t, "", ""), ignition(t, "rendered-a", c.whole),
				ignition(t, "rendered-a", c.served)
			bring(t, m, nothing, served)
			if c.changed != "" {
				m.Put(c.changed, "changed")
			}
			if c.born != "" {
				served = ignition(t, "rendered-a", c.born)
			}
			before := ignition(t, "rendered-a", c.whole)
			whole.Secrets, before.Secrets = c.marked, c.marked
			accounts, err := apply.Accounts(t.Context(), m.Host())
			if err != nil {
				t.Fatal(err)
			}
			seen := observe(t, m.Host(), plan.ScopeOf(plan.DesiredOf(whole.Config, accounts)))
			born := plan.AtFirstBoot(whole, accounts, seen)
			want, err := served.Config.IgnitionJSON()
			if err != nil {
				t.Fatal(err)
			}
			is, err := born.IgnitionJSON()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(is)); diff != "" {
				t.Errorf("not what was served (-want +is):\n%s", diff)
			}
			if diff := cmp.Diff(before, whole); diff != "" {
				t.Error("the config itself was changed: " + diff)
			}
			if c.changed == "" && c.born == "" {
				bring(t, m, plan.Config{Name: "rendered-a", Config: born}, whole)
				if p, _ := planOn(t, m, whole, whole); len(p.Steps) > 0 || len(p.Refusals) > 0 {
					t.Errorf("it is not whole after that: %s", p)
				}
			}
		})
	}
}
