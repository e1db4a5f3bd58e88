package policy

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// secretWords in a file's name mark it as one whose content nobody prints.
var secretWords = []string{"secret", "password", "passwd", "token", "credential", "kubeconfig", "private", "shadow", "id_rsa", "id_ed25519", "id_ecdsa", "htpasswd", "auth.json", "authkey", ".netrc", ".pgpass"}

// secretSuffixes do so by their ending.
var secretSuffixes = []string{".key", ".keys", ".keyring", ".p12", ".pfx", ".jks", ".keytab", ".psk", ".nmconnection", ".ovpn"}

// secretFolders do so for all below them, whatever it is called.
var secretFolders = []string{"secret", "secrets", "private", "credential", "credentials", "credstore", "credstore.encrypted", "tokens", "system-connections"}

// secretFiles do so by their whole path.
var secretFiles = map[string]bool{
	"/var/lib/kubelet/config.json": true, // the registries' pull secret
	"/root/.docker/config.json":    true,
	"/etc/kubernetes/kubeconfig":   true,
}

// secretTexts are what secrets look like in whatever file they stand. The expressions are slow, so each is asked only
// where a text has one of its words, in lower case.
var secretTexts = []struct {
	words []string
	form  *regexp.Regexp
}{
	{[]string{"private key"}, regexp.MustCompile(`PRIVATE KEY( BLOCK)?-----`)},
	{[]string{"age-secret-key-1"}, regexp.MustCompile(`AGE-SECRET-KEY-1`)},
	{[]string{"ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat", "xox", "npm", "hvs", "sk_live", "dop_v1"}, regexp.MustCompile(`\b(ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs]|npm|hvs|sk_live|dop_v1)[_.-][A-Za-z0-9_-]{10}`)},
	{[]string{"akia"}, regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`)},
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.`)},   // a signed web token
	{[]string{"authorization"}, regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*\S+`)}, // a header
	{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{12,}`)},
	{[]string{"://"}, regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@`)},                                 // a password in an address
	{[]string{"$"}, regexp.MustCompile(`\$(y|gy|7|6|5|1|2[abxy]|argon2id?)\$[^\s$]+\$\S`)},                             // a hash of a password
	{[]string{"client-key-data"}, regexp.MustCompile(`\bclient-key-data["']?\s*:`)},                                    // a kubeconfig
	{[]string{"grub.pbkdf2."}, regexp.MustCompile(`(?i)grub\.pbkdf2\.`)},                                               // a boot loader's password
	{[]string{"<"}, regexp.MustCompile(`(?i)<[\w.:-]*(?:password|passwd|passphrase|secret|token|api-?key)>\s*[^<\s]`)}, // an element of XML
	{[]string{"key"}, regexp.MustCompile(`(?m)^\s*key\s*=\s*[A-Za-z0-9+/]{38}==\s*$`)},                                 // a key of Ceph
	{[]string{"secret"}, regexp.MustCompile(`\bsecret\s+"[^"\s]{6}`)},                                                  // a key of a name server
	{[]string{"community"}, regexp.MustCompile(`(?m)^\s*r[ow]community6?\s+\S`)},                                       // SNMP
	{[]string{"message-digest-key"}, regexp.MustCompile(`\bmessage-digest-key\s+\d+\s+\S+\s+\S`)},                      // a routing protocol
	{[]string{"stats"}, regexp.MustCompile(`(?m)^\s*stats\s+auth\s+\S+:\S`)},                                           // a proxy's own page
	{[]string{"curl"}, regexp.MustCompile(`\bcurl\b[^\n]*\s(?:-u|--user)[ =]?["']?[^\s:"'-][^\s:"']*:[^\s"'$%]`)},      // a log-in as an option
	{[]string{`"auths"`}, regexp.MustCompile(`"auths"\s*:`)},                                                           // a container tool's log-ins
}

// assigned are words of which one is in every assignment and option below.
var assigned = []string{"pass", "pwd", "secret", "token", "key", "psk", "credential", "authtok"}

// assignment is `password = value` and its like, with names that end in such a word, in any syntax that has = or :.
var assignment = regexp.MustCompile(`(?i)(?:passw(?:or)?d|pwd|passphrase|pass|secret|token|api[_.-]?key|access[_.-]?key(?:[_.-]id)?|auth[_.-]?key|authtok|certificate[_.-]?key|private[_.-]?key|preshared[_.-]?key|psk|credentials?)["']?[ \t]*[:=][ \t]*["']?([^\s"']+)`)

// option is the same as an option of a program: `--token value`.
var option = regexp.MustCompile(`(?i)--?[a-z-]*(?:password|passphrase|token|secret|api-key)[ \t]+["']?([^\s"'-][^\s"']*)`)

// directive is the same with blanks, as the first words of a line: `auth_pass value`. PAM's are harmless.
var directive = regexp.MustCompile(`(?im)^[ \t]*(?:enable[ \t]+|neighbor[ \t]+\S+[ \t]+)?(?:password|passphrase|auth_pass)[ \t]+["']?([^\s"']+)["';]*(?:[ \t]*$|[ \t]+#)`)

// harmless values of an assignment say where a secret is, or whether there shall be one.
var harmless = regexp.MustCompile(`(?i)^(?:true|false|yes|no|on|off|none|null|never|always|required|requisite|sufficient|optional|include|substack|\d|[{[]|\$\w+|\$[{(].*|%[a-zA-Z%](?:/.*)?|file:.*|(?:[\w.-]+:)?/(?:etc|var|run|usr|home|opt|root|dev|srv|tmp|boot|sys|proc)/[^,;]*)[,;]?$`)

// Secret tells whether content at a path must not be printed, and should be read by few people: by where it is, or by what
// it holds. It errs on the side of yes. Contents that are no file have no path.
func Secret(file string, content []byte) bool {
	return file != "" && secretPath(file) || secretContent(content)
}

func secretPath(file string) bool {
	base := strings.ToLower(path.Base(file))
	if secretFiles[file] {
		return true
	}
	if slices.ContainsFunc(strings.Split(strings.ToLower(path.Dir(file)), "/"), func(f string) bool { return slices.Contains(secretFolders, f) }) {
		return true
	}
	for _, w := range secretWords {
		if strings.Contains(base, w) {
			return true
		}
	}
	for _, s := range secretSuffixes {
		if strings.HasSuffix(base, s) {
			return true
		}
	}
	return false
}

func secretContent(content []byte) bool {
	lower := bytes.ToLower(content)
	has := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(lower, []byte(w)) })
	}
	for _, s := range secretTexts {
		if has(s.words) && s.form.Match(content) {
			return true
		}
	}
	if !has(assigned) {
		return false
	}
	for _, r := range []*regexp.Regexp{assignment, option, directive} {
		for _, m := range r.FindAllSubmatch(content, -1) {
			if !harmless.Match(m[1]) {
				return true
			}
		}
	}
	return false
}
