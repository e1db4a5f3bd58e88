package transpile

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// passwordHash matches what crypt(3) accepts: a hash with its method, or a marker of an account without a password. The
// methods are those of libcrypt: yescrypt, gost-yescrypt, scrypt, bcrypt, sha512crypt, sha256crypt, sha1crypt, md5crypt
// and sunmd5.
var passwordHash = regexp.MustCompile(`^(!{0,2}\$(y|gy|7|2[abxy]?|6|5|sha1|1|md5)[$,][^\s:]+|[!*x]|!!|\*LK\*|)$`)

// Accounts checks the SSH keys and password hashes of a document's users. Ignition does not check SSH keys and
// password hashes, so users notice a mistake only when they cannot log in. A private key is an error. Every other
// mistake is a warning, because imported configs may contain unused keys. The findings never quote a key or a hash.
func Accounts(config machineconfig.Config, from origin.Map) []origin.Finding {
	var found []origin.Finding
	say := func(path, rule, format string, args ...any) {
		at, _ := from.Find(path)
		message := fmt.Sprintf(format, args...)
		found = append(found, origin.Finding{Warning: rule != "private-key", Rule: rule, Message: message, At: at})
	}
	for i, u := range config.Ignition.Passwd.Users {
		here := fmt.Sprintf("$.passwd.users.%d", i)
		for j, key := range u.SSHAuthorizedKeys {
			if strings.HasPrefix(string(key), "#") {
				continue // sshd skips comments, and a local file of keys may contain some.
			}
			if why := kinds.SSHKeyProblem(string(key)); why != "" {
				rule := "ssh-key"
				if strings.Contains(string(key), "PRIVATE KEY") {
					rule = "private-key"
				}
				say(fmt.Sprintf("%s.sshAuthorizedKeys.%d", here, j), rule, "user %s: %s", u.Name, why)
			}
		}
		if u.NoCreateHome != nil && *u.NoCreateHome && len(u.SSHAuthorizedKeys) > 0 && u.Name != "root" &&
			u.Name != "core" {
			say(here+".noCreateHome", "no-home", "user %s has SSH keys and no_create_home: unless the image has the "+
				"home directory, a new machine cannot write the keys and does not boot. Remove no_create_home", u.Name)
		}
		if h := u.PasswordHash; h != nil && !passwordHash.MatchString(*h) {
			say(here+".passwordHash", "password-hash", "user %s: the value is not a password hash, so the user "+
				"cannot log in. If it is a password, change it, because every reader of the repository has it; "+
				"write what `mkpasswd --method=yescrypt` prints", u.Name)
		}
	}
	return found
}
