package disruption_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// TestUnitsThatANodeMustHave: only units that the config enables and does not write are named, and only once they are
// new.
func TestUnitsThatANodeMustHave(t *testing.T) {
	of := func(units, files string) machineconfig.Config {
		return config(t, `"systemd":{"units":[`+units+`]},"storage":{"files":[`+files+`]}`)
	}
	to := of(`{"name":"far.service","enabled":true},{"name":"old.service","enabled":true},{"name":"off.service",`+
		`"enabled":false},{"name":"own.service","enabled":true,"contents":"[Unit]\n"},{"name":"at@1.service","enabled":true},`+
		`{"name":"at@.service","contents":"[Unit]\n"},{"name":"file.service","enabled":true}`,
		`{"path":"/etc/systemd/system/file.service","contents":{"source":"data:,x"}}`)
	var named []string
	for _, r := range disruption.CheckedOnNode(of(`{"name":"old.service","enabled":true}`, ""), to) {
		if r.Check == disruption.CheckUnits {
			named = append(named, r.Field)
		}
	}
	if got := strings.Join(named, ", "); got != "unit far.service" {
		t.Errorf("named: %s", got)
	}
}

// TestSSHKeysThatAConfigHides: a review says that sshd would not read the keys of a user, because another file of the
// config sets AuthorizedKeysFile without theirs.
func TestSSHKeysThatAConfigHides(t *testing.T) {
	const keys = `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]},{"name":"none"}]}`
	at := func(path, text string) string {
		return `{"path":"` + path + `","contents":{"source":"data:,` + text + `"}}`
	}
	const main, dropIn = "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/50-keys.conf"
	for sentence, c := range map[string]struct {
		files []string
		want  string
	}{
		"no settings":                        {},
		"another file in a drop-in":          {[]string{at(dropIn, "AuthorizedKeysFile%20/k/%25u")}, "user core"},
		"another file in the main file":      {[]string{at(main, "PrintMotd%20no%0Aauthorizedkeysfile%09/k/%25u")}, "user core"},
		"their file beside another":          {[]string{at(dropIn, "AuthorizedKeysFile%20/k/%25u%20%25h/.ssh/authorized_keys")}, ""},
		"the second file of OpenSSH":         {[]string{at(dropIn, "AuthorizedKeysFile%20.ssh/authorized_keys2")}, "user core"},
		"a drop-in comes before the main":    {[]string{at(main, "AuthorizedKeysFile%20/k"), at(dropIn, "AuthorizedKeysFile%20.ssh/authorized_keys")}, ""},
		"the first line counts":              {[]string{at(main, "AuthorizedKeysFile%20.ssh/authorized_keys%0AAuthorizedKeysFile%20/k")}, ""},
		"a setting for some users":           {[]string{at(main, "Match%20User%20x%0AAuthorizedKeysFile%20/k")}, ""},
		"a comment":                          {[]string{at(main, "%23AuthorizedKeysFile%20/k")}, ""},
		"a file that sshd does not read":     {[]string{at("/etc/ssh/sshd_config.d/keys", "AuthorizedKeysFile%20/k")}, ""},
		"quotes and an equals sign":          {[]string{at(main, "AuthorizedKeysFile=%22/k%22")}, "user core"},
		"no file at all":                     {[]string{at(main, "AuthorizedKeysFile%20none")}, "user core"},
		"a setting of a name that begins so": {[]string{at(main, "AuthorizedKeysFiles%20/k")}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			to := config(t, keys+`,"storage":{"files":[`+strings.Join(c.files, ",")+`]}`)
			var named []string
			for _, r := range disruption.CheckedOnNode(config(t, ""), to) {
				if strings.Contains(r.Why, "AuthorizedKeysFile") {
					named = append(named, r.Field)
				}
			}
			if got := strings.Join(named, ", "); got != c.want {
				t.Errorf("it names %q, want %q", got, c.want)
			}
		})
	}
}
