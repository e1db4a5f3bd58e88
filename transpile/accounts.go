package transpile

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/sshkeys"
)

// passwordHash matches what crypt(3) takes: a hash with its method, and a marker of an account without a password. The methods are
// those of libcrypt: yescrypt, gost-yescrypt, scrypt, bcrypt, sha512crypt, sha256crypt, sha1crypt, md5crypt and sunmd5.
var passwordHash = regexp.MustCompile(`^(!{0,2}\$(y|gy|7|2[abxy]?|6|5|sha1|1|md5)[$,][^\s:]+|[!*x]|!!|\*LK\*|)$`)

// accounts checks the SSH keys and password hashes of a document's users. Ignition writes whatever it is given, so a mistake shows
// when nobody can log in. A private key is an error. All else is a warning, as imported configs may have keys that no node misses. The
// findings never quote a key or a hash.
func (d *draft) accounts() {
	say := func(path, rule, format string, args ...any) {
		at, _ := d.origin.Find(path)
		message := fmt.Sprintf(format, args...)
		d.findings = append(d.findings, origin.Finding{Warning: rule != "private-key", Rule: rule, Message: message, At: at})
	}
	for i, u := range d.config.Ignition.Passwd.Users {
		here := fmt.Sprintf("$.passwd.users.%d", i)
		for j, key := range u.SSHAuthorizedKeys {
			if strings.HasPrefix(string(key), "#") {
				continue // sshd skips comments, which a local file may have
			}
			if why := sshkeys.Problem(string(key)); why != "" {
				rule := "ssh-key"
				if strings.Contains(string(key), "PRIVATE KEY") {
					rule = "private-key"
				}
				say(fmt.Sprintf("%s.sshAuthorizedKeys.%d", here, j), rule, "user %s: %s", u.Name, why)
			}
		}
		if h := u.PasswordHash; h != nil && !passwordHash.MatchString(*h) {
			say(here+".passwordHash", "password-hash", "user %s: this is no password hash, so nobody can log in with it; if it is a password, change it, as whoever read the repository has it; "+
				"write what `mkpasswd --method=yescrypt` prints", u.Name)
		}
	}
}
