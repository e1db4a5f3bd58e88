package secret

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// RuleFile names what is a secret by its path alone.
const RuleFile = "secret-file"

// fileRules go by the path of a file.
var fileRules = []Rule{
	{Name: "account-file", Purpose: "lists of accounts: shadow, htpasswd, .pgpass, rsyncd.secrets, chap-secrets", text: accountLines},
	{Name: RuleFile, Purpose: "files that hold nothing but a secret, by their path: /etc/credstore/db, *.token", text: secretFiles},
}

// accountFiles say in which field of a line of a file the secret is. The form is one group per secret.
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

// accountLines masks the secret field of each line of a list of accounts.
func accountLines(t *text, rule string) {
	last, forms := "", []*regexp.Regexp(nil)
	for i := range t.lines {
		p := t.pathOf(i)
		if p != last {
			last, forms = p, accountForms(p)
		}
		if len(forms) == 0 || isComment(t.line(i)) {
			continue
		}
		for _, form := range forms {
			m := form.FindStringSubmatchIndex(t.line(i))
			if m == nil {
				continue
			}
			v := t.line(i)[m[2]:m[3]]
			if strings.HasPrefix(v, `"`) && len(v) > 2 {
				m[2], m[3] = m[2]+1, m[3]-1
			}
			if !isReference(strings.Trim(v, `"`), true) && v != "*" && v != `""` {
				t.mask(i, m[2], m[3], rule)
			}
		}
	}
}

// accountForms are the forms of the lines of a file with a path.
func accountForms(p string) (out []*regexp.Regexp) {
	base := lowerASCII(path.Base(p))
	for _, f := range accountFiles {
		if p != "" && f.base.MatchString(base) {
			out = append(out, f.form)
		}
	}
	return out
}

// secretFolders hold nothing but secrets, and credentialFolders whatever the files are called.
var (
	secretFolders = wordSet("secret secrets credential credentials credstore tokens private")
	wholeFolders  = wordSet("credstore")
)

// secretName matches names of files that are a secret as a whole.
var secretName = regexp.MustCompile(`(?i)(?:^|[._-])(?:token|passw(?:or)?d|passphrase|secret|authkey|api[_-]?key|psk|munge\.key|erlang\.cookie|vault[_-]pass(?:word)?|client[_-]?secret|pass|pw|luks[_-]?key|keyfile|encryption[_-]?key|shared[_-]?secret|preshared[_-]?key|wg[_-]?key|private[_-]?key|privkey|credentials?|pin|cookie|master[_-]?key)(?:\.(?:txt|key|b64|secret|token|bin|base64|hex|cred|passwd|password|old|bak|env))?$`)

// secretEnds are endings of such names.
var secretEnds = []string{".psk", ".token", ".passwd", ".password", ".secret", ".passphrase", ".pass", ".privkey"}

// keyEnds are endings of files that are keys, mostly binary.
var keyEnds = []string{".key", ".p12", ".pfx", ".jks", ".keytab", ".kdbx", ".keystore", ".keyring"}

// pullSecrets are the log-ins at registries.
var pullSecrets = map[string]bool{"/var/lib/kubelet/config.json": true, "/root/.docker/config.json": true}

// isSecretPath reports whether all of a file is one secret, unless its content has a form that rules know.
func isSecretPath(p string) bool {
	if pullSecrets[p] {
		return true
	}
	base := lowerASCII(path.Base(p))
	folders := strings.Split(lowerASCII(path.Dir(p)), "/")
	if slices.ContainsFunc(folders, func(f string) bool { return secretFolders[f] }) {
		return true
	}
	hasEnd := func(e string) bool { return strings.HasSuffix(base, e) }
	return secretName.MatchString(base) || slices.ContainsFunc(secretEnds, hasEnd) || slices.ContainsFunc(keyEnds, hasEnd) || base == "authkey" || base == "krb5.keytab"
}

// structured matches a line of a form that other rules know: a key and a value, a section, a comment, PEM, a script.
var structured = regexp.MustCompile(`[{};]\s*$|^\s*(?:[#;/]|$|\[[\w ".:-]+\]\s*$|-----|[\w.-]+\s*[:=]\s|[\w.-]+:\s*$|[A-Za-z_][\w.-]*=[^=]|---|[{}\[\]],?\s*$|"[^"]*"\s*:|<|- [\w"]+:)`)

// namedSecret matches names of files that have secrets among other things.
var namedSecret = regexp.MustCompile(`(?i)(?:tokens?|secrets?|passw(?:or)?ds?|passphrases?|credentials?|psks?|apikeys?)(?:\.(?:txt|csv|list|lst|conf|dat|db))?$`)

func isNamedSecret(p string) bool { return namedSecret.MatchString(path.Base(p)) }

// maskOpaque masks the words that look random in a file whose name says that it has secrets.
func maskOpaque(t *text, rule string) {
	for i := range t.lines {
		if s := t.line(i); !isComment(s) && !structured.MatchString(s) {
			for _, w := range tokens(s) {
				if isOpaque(w.s) && !isReference(w.s, true) && !strings.HasPrefix(w.s, "AAAA") {
					t.mask(i, w.start, w.end, rule)
				}
			}
		}
	}
}

// secretFiles masks each line of a file that is a secret as a whole. Lines that have a form of their own are left to the other
// rules.
func secretFiles(t *text, rule string) {
	if isBinary(t.body) {
		return
	}
	last, secret, whole := "", false, false
	for i := range t.lines {
		p := t.pathOf(i)
		if p == "" {
			continue
		}
		if p != last {
			last, secret = p, isSecretPath(p)
			whole = secret && isSecretFile(p, t.body)
			if i == 0 && !secret && isNamedSecret(p) {
				maskOpaque(t, rule)
			}
		}
		if !secret {
			continue
		}
		if t.paths != nil && p != t.path {
			maskInline(t, i, rule)
			continue
		}
		if whole {
			t.maskRest(i, 0, rule, i > 0)
		}
	}
}

// isSecretFile reports whether a content has no form that other rules know. The first lines decide.
func isSecretFile(p, content string) bool {
	if !isSecretPath(p) || isBinary(content) {
		return false
	}
	folders := strings.Split(lowerASCII(path.Dir(p)), "/")
	if slices.ContainsFunc(folders, func(f string) bool { return wholeFolders[f] }) {
		return !strings.Contains(content[:min(len(content), 100)], "-----BEGIN ")
	}
	head := content[:min(len(content), 4096)]
	for _, s := range strings.SplitN(head, "\n", 20) {
		s = strings.TrimRight(s, "\r")
		if structured.MatchString(s) && strings.TrimSpace(s) != "" && !isBase64Line(s) || isAccountLine(p, s) {
			return false
		}
		if strings.Count(strings.TrimSpace(s), " ") > 3 || strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "/") && isPath(s) {
			return false
		}
	}
	return !isReference(strings.TrimSpace(content), false)
}

// isBase64Line tells a secret that ends in = from a key with a value.
func isBase64Line(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 15 && isOpaque(s) && strings.Index(s, "=") >= len(s)-2
}

// isAccountLine reports whether a line is one of a list of accounts.
func isAccountLine(p, s string) bool {
	return slices.ContainsFunc(accountForms(p), func(form *regexp.Regexp) bool { return form.MatchString(s) })
}

// inlineValue is a content within a document that describes files.
var inlineValue = regexp.MustCompile(`^\s*-?\s*"?(?:inline|content|contents)"?\s*:\s*(?:"([^"]+)"|'([^']+)'|([^\s|>"'{][^#]*?))\s*,?\s*(?:#.*)?$`)

// maskInline masks the content that a document gives to a file that is a secret as a whole.
func maskInline(t *text, i int, rule string) {
	s := t.line(i)
	if m := inlineValue.FindStringSubmatchIndex(s); m != nil {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && !structured.MatchString(s[m[g]:m[g+1]]) && !isReference(s[m[g]:m[g+1]], false) {
				t.mask(i, m[g], m[g+1], rule)
			}
		}
		return
	}
	key, rest, ok := yamlKey(s)
	if !ok || !slices.Contains([]string{"inline", "content", "contents"}, key) || !isBlockStart(rest) {
		return
	}
	end := t.blockEnd(i)
	for n := i + 1; n < end; n++ {
		if structured.MatchString(t.line(n)) && strings.TrimSpace(t.line(n)) != "" {
			return
		}
	}
	t.maskLines(i+1, end, rule)
}
