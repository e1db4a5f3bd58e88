package classify

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// accountFiles has the form of the lines of each kind of file. The group of a form is the secret.
var accountFiles = []struct {
	base, form *regexp.Regexp
}{
	{regexp.MustCompile(`^(?:g?shadow-?|.*shadow)$`), regexp.MustCompile(`^[^:#\s]+:([^:*!\s][^:\s]{5,}|!+\$[^:\s!*]{6,})(?::|$)`)},
	{regexp.MustCompile(`(?:htpasswd|\.users|passwdfile|mosquitto.*passwd|lighttpd.*user|dovecot.*passwd|vsftpd.*|passwd-s3fs|rsyncd\.secrets|rsync.*(?:secret|passwd)s?|users\.passwd|nginx.*passwd|\.?htdigest|basic_?auth|.*\.htpasswd|tinyproxy.*users|webdav.*passwd|pure-ftpd.*|static-auth.*)$`), regexp.MustCompile(`^\s*[^:#\s]+:(?:[^:]*\s[^:]*:)?(\S+)\s*$`)},
	{regexp.MustCompile(`^\.?pgpass(?:\.conf)?$`), regexp.MustCompile(`^[^#\s][^:]*:[^:]*:[^:]*:[^:]*:(.+)$`)},
	{regexp.MustCompile(`^(?:chap|pap|srp)-secrets$`), regexp.MustCompile(`^\s*(?:"[^"]*"|[^\s#]+)\s+(?:"[^"]*"|\S+)\s+("[^"]*"|[^\s#]+)`)},
	{regexp.MustCompile(`sasl.*passw|passwd\.client`), regexp.MustCompile(`^\s*[^\s#]+[\s:]+[^\s:]+:(\S+)`)},
	{regexp.MustCompile(`^(?:chrony|ntp|.*ntp).*\.?keys?$`), regexp.MustCompile(`^\s*\d+\s+(?:[A-Za-z][\w-]*\s+)?((?:HEX:|ASCII:)?\S+)`)},
	{regexp.MustCompile(`userlist\.txt$`), regexp.MustCompile(`^\s*"[^"]*"\s+"([^"]+)"`)},
	{regexp.MustCompile(`^(?:server|pam_radius.*\.conf|radius.*\.conf|servers)$`), regexp.MustCompile(`^\s*(?:[\w-]+\.[\w.-]+|[\d.]+|\[[\da-fA-F:]+\])(?::\d+)?\s+(\S{4,})(?:\s+\d+)?(?:\s+\S+)?\s*$`)},
	{regexp.MustCompile(`^upsmon\.conf$`), regexp.MustCompile(`^\s*MONITOR\s+\S+\s+\d+\s+\S+\s+(\S+)`)},
	{regexp.MustCompile(`^(?:tac_plus|.*tacacs).*\.conf$`), regexp.MustCompile(`^\s*(?:key|secret)\s*=\s*"?([^\s"]+)`)},
	{regexp.MustCompile(`^(?:ldap|nslcd|pam_ldap|libnss-ldap).*\.conf$`), regexp.MustCompile(`^\s*(?:rootbindpw|bindpw)\s+(\S+)`)},
	{regexp.MustCompile(`(?:token|basic|auth|passw|user)[\w-]*\.csv$`), regexp.MustCompile(`^([^,\s]+),[^,]+,`)},
	{regexp.MustCompile(`^\.google_authenticator$`), regexp.MustCompile(`^([A-Z2-7]{16,}|\d{8})\s*$`)},
	{regexp.MustCompile(`^users\.oath$`), regexp.MustCompile(`^\s*\S+\s+\S+\s+\S+\s+([0-9a-fA-F]{16,})`)},
	{regexp.MustCompile(`^keys$`), regexp.MustCompile(`^\s*\d+\s+(?:M|A|N|S|MD5|SHA\d*|AES\w*)\s+(\S+)`)},
	{regexp.MustCompile(`^(?:.*vncpasswd|.*psk\.?(?:txt|keys|secrets?)?)$`), regexp.MustCompile(`^\s*[\w.@-]+:(\S{8,})\s*$`)},
}

// AccountForms returns the forms of the lines of a file.
func AccountForms(p string) (out []*regexp.Regexp) {
	base := LowerASCII(path.Base(p))
	for _, f := range accountFiles {
		if p != "" && f.base.MatchString(base) {
			out = append(out, f.form)
		}
	}
	return out
}

// secretFolders are folders that contain only secrets. wholeFolders are folders in which each file is one secret,
// whatever its form.
var (
	secretFolders = WordSet("secret secrets credential credentials credstore tokens private")
	wholeFolders  = WordSet("credstore")
)

// secretName matches names of files that are one secret.
var secretName = regexp.MustCompile(
	`(?i)(?:^|[._-])(?:token|passw(?:or)?d|passphrase|secret|authkey|api[_-]?key|psk|munge\.key|erlang\.cookie|vault[_-]pass(?:word)?|client[_-]?secret|pass|pw|luks[_-]?key|keyfile|encryption[_-]?key|shared[_-]?secret|preshared[_-]?key|wg[_-]?key|private[_-]?key|privkey|credentials?|pin|cookie|master[_-]?key)(?:\.(?:txt|key|b64|secret|token|bin|base64|hex|cred|passwd|password|old|bak|env))?$`)

// secretEnds are endings of names of secret files.
var secretEnds = []string{".psk", ".token", ".passwd", ".password", ".secret", ".passphrase", ".pass", ".privkey"}

// keyEnds are endings of files that are keys, mostly binary.
var keyEnds = []string{".key", ".p12", ".pfx", ".jks", ".keytab", ".kdbx", ".keystore", ".keyring"}

// pullSecrets are files with credentials for registries.
var pullSecrets = map[string]bool{"/var/lib/kubelet/config.json": true, "/root/.docker/config.json": true}

// IsSecretPath reports whether the path of a file means that the file is one secret. Even so, another rule may mask
// single parts of its content.
func IsSecretPath(p string) bool {
	if pullSecrets[p] {
		return true
	}
	base := LowerASCII(path.Base(p))
	folders := strings.Split(LowerASCII(path.Dir(p)), "/")
	if slices.ContainsFunc(folders, func(f string) bool { return secretFolders[f] }) {
		return true
	}
	hasEnd := func(e string) bool { return strings.HasSuffix(base, e) }
	return secretName.MatchString(base) || slices.ContainsFunc(secretEnds, hasEnd) ||
		slices.ContainsFunc(keyEnds, hasEnd) || base == "authkey" || base == "krb5.keytab"
}

// structured matches a line with a form that other rules can mask: a key and a value, a section, a comment, PEM, a
// script.
var structured = regexp.MustCompile(
	`[{};]\s*$|^\s*(?:[#;/]|$|\[[\w ".:-]+\]\s*$|-----|[\w.-]+\s*[:=]\s|[\w.-]+:\s*$|[A-Za-z_][\w.-]*=[^=]|---|[{}\[\]],?\s*$|"[^"]*"\s*:|<|- [\w"]+:)`)

// IsStructured reports whether a line has a form that other rules can mask.
func IsStructured(s string) bool { return structured.MatchString(s) }

// namedSecret matches names of files that contain secrets and other text.
var namedSecret = regexp.MustCompile(
	`(?i)(?:tokens?|secrets?|passw(?:or)?ds?|passphrases?|credentials?|psks?|apikeys?)(?:\.(?:txt|csv|list|lst|conf|dat|db))?$`)

// NamesSecrets reports whether the name of a file says that it contains secrets and other text.
func NamesSecrets(p string) bool { return namedSecret.MatchString(path.Base(p)) }

// IsSecretFile reports whether the first lines of a secret file have no form that other rules can mask, so that the
// whole file must be masked.
func IsSecretFile(p, content string) bool {
	if !IsSecretPath(p) || IsBinary(content) {
		return false
	}
	folders := strings.Split(LowerASCII(path.Dir(p)), "/")
	if slices.ContainsFunc(folders, func(f string) bool { return wholeFolders[f] }) {
		return !strings.Contains(content[:min(len(content), 100)], "-----BEGIN ")
	}
	head := content[:min(len(content), 4096)]
	for _, s := range strings.SplitN(head, "\n", 20) {
		s = strings.TrimRight(s, "\r")
		if IsStructured(s) && strings.TrimSpace(s) != "" && !isBase64Line(s) || isAccountLine(p, s) {
			return false
		}
		if strings.Count(strings.TrimSpace(s), " ") > 3 || strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "/") &&
			IsPath(s) {
			return false
		}
	}
	return !IsReference(strings.TrimSpace(content), false)
}

// isBase64Line reports whether a line is a secret that ends with =, and not a key with a value.
func isBase64Line(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 15 && IsRandom(s) && strings.Index(s, "=") >= len(s)-2
}

// isAccountLine reports whether a line is one of a list of accounts.
func isAccountLine(p, s string) bool {
	return slices.ContainsFunc(AccountForms(p), func(form *regexp.Regexp) bool { return form.MatchString(s) })
}
