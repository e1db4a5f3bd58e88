package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// reference matches values that say where a secret is, or whether there shall be one.
var reference = regexp.MustCompile(`(?i)^(?:` + strings.Join([]string{
	`true|false|yes|no|y|n|on|off|none|null|nil|undefined|never|always|required|requisite|sufficient|optional|include|substack|default|auto|ask|prompt|empty|unset|enabled?|disabled?|~`,
	`string|str|bytes|int|integer|number|boolean|bool|object|array|list|map|any|text|optional\[.*\]`,
	`prohibit-password|without-password|sha-?\d+|md5|scram-sha-256|bcrypt|yescrypt|plain|plaintext|hashed|encrypted|gssapi|x509|pbkdf2|argon2id?|negotiate|basic|bearer|digest|webhook|rbac|node|alwaysallow`,
	`\$\{.*\}|\$\(.*|\x60.*|%\([\w.]+\)s?|%[a-zA-Z%](?:/.*)?|\{\{.*|<[^<>]*>|@[\w.]+@|__\w+__|\{\$?[\w.]+\}|\{(?:env|file)[.:].*\}`,
	`\*+|x{3,}|\.{2,}|-+|_+|=+|…|\?+|redacted|\[?redacted\]?|hidden|omitted|masked|placeholder|todo|tbd|n/a`,
	`file:.*|(?:https?|unix|tcp|oci|docker|pkcs11|tpm2?|vault|op|ref\+\w+|awssm|gcpsm|arn|projects|ssm|secretsmanager|keyring|env|exec|awskms|gcpkms|azurekms|kms):.*`,
	`(?:ENC\[.*|!vault.*|\$ANSIBLE_VAULT.*|\{cipher\}.*|vault:v\d+:.*|ENC\(.*\)|age1[a-z0-9]+|age:.*|AgB[A-Za-z0-9+/=]{60,})`,
	`!(?:Ref|Sub|GetAtt|env|secret|include|reference|vault)\b.*`,
	`[&*][A-Za-z][\w-]*`, // an anchor of YAML
	`(?:process\.|os\.|var\.|local\.|data\.|module\.|self\.|this\.|config\.|settings\.|args\.|params\.|secrets\.|env\.|each\.)[\w.\[\]"'()]*`,
	`[A-Za-z_][\w.]*!?\(.*`, // a call of a function
	`\$__\w+\{.*|[A-Z]+\[.*\]|@/[\w./-]+|[\w.-]+,(?:type|target|mode|uid|id|src|source)=.*`,
	`(?:\\[SwWdDb]|\.[*+]|\[\^|\(\?|\(\[|\(\.|\[A-Za|\[a-z).*`, // an expression
	`[|>][+-]?\d?`,
	`(?:(?:files|compat|sss|systemd|ldap|nis|db|winbind|altfiles|mymachines|\[[^\]]*\])\s*)+`,
	`(?:your|my|the|change|replace|insert|enter|put)[-_ ](?:\w+[-_ ])*(?:here|password|token|secret|key|me)`,
}, "|") + `)$`)

// pathForm matches paths; what only begins with a slash can be base64.
var pathForm = regexp.MustCompile(`^(?:[\w.-]+[:=])?(?:~|\.{1,2}|[A-Za-z]:|\$\{?\w+\}?|%[hSdtE])?/(?:[\w.@%$*{}~-]+/?)*(?::[\w,]+)?$`)

// roots are where paths begin.
var roots = wordSet("etc var run usr home opt root dev srv tmp boot sys proc mnt data media lib bin sbin secrets vault config app certs mount nix snap host host-etc keys")

// fileName matches names of files that hold secrets.
var fileName = regexp.MustCompile(`(?i)^[\w.@{}%$-]+\.(?:pem|key|crt|cer|txt|json|ya?ml|conf|cfg|ini|env|toml|p12|pfx|jks|keytab|secret|token|password|passwd|pub|gpg|asc|age|so|service|html|sock|py|sh)$`)

// variable matches a reference to a variable of a program.
var variable = regexp.MustCompile(`^\$(?:[A-Z_][A-Z0-9_]*|\d|[a-z]+_[a-z0-9_]*|[@*#?])$`)

// lowerVariable matches one that a password could look like.
var lowerVariable = regexp.MustCompile(`^\$\w+$`)

var embedded = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\{\{[^}]*\}\}|%[a-zA-Z]\b|<[\w -]+>`)

// isReference reports whether a value is no secret, whatever its key: empty, a switch, a variable, a path, an encrypted value.
func isReference(v string, script bool) bool {
	v = strings.TrimSpace(v)
	switch {
	case v == "" || isMark(v) || strings.Trim(v, `"',;:.\()[]{}|>`) == "":
		return true
	case strings.Contains(v, " ") && isProse(v), isIdentifierOfSecret(v):
		return true
	case reference.MatchString(v), variable.MatchString(v), isPath(v), fileName.MatchString(v):
		return true
	case v[0] == '$' && lowerVariable.MatchString(v):
		return script || containsAny(lowerASCII(v), []string{"pass", "token", "secret", "key", "pw", "http_", "cred"})
	case strings.Contains(v, "$") || strings.Contains(v, "{{") || strings.Contains(v, "<"):
		return len(strings.Trim(embedded.ReplaceAllString(v, ""), " -_:/.@,\"'+=")) < 3
	}
	return false
}

// secretNoun is a word for a secret in prose.
var secretNoun = regexp.MustCompile(`(?i)\b(?:password|passphrase|token|secret|passwort)s?\b`)

// isProse reports whether a value of several words is a sentence about a secret.
func isProse(v string) bool {
	words := strings.Count(v, " ") + 1
	return words > 1 && secretNoun.MatchString(v) && !strings.ContainsAny(v, "=0123456789") || words > 3 && (strings.HasSuffix(v, ".") || strings.Contains(v, ". "))
}

// identifier is what programs call a thing: words with dots, or in capitals.
var identifier = regexp.MustCompile(`^(?:[a-z_]+(?:\.[a-z_]+)+|[A-Z]+(?:_[A-Z]+)*)$`)

// isIdentifierOfSecret reports whether a value is what a program calls a secret: random_password.db.result, PASSWORD.
func isIdentifierOfSecret(v string) bool {
	return len(v) < 80 && identifier.MatchString(v) && namesSecret(v)
}

// namesSecret reports whether a value has a word for a secret in it.
func namesSecret(v string) bool {
	return len(v) < 80 && strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-./") == "" &&
		slices.ContainsFunc(keyWords(v), func(w string) bool { return strongWords[w] || plainWords[w] || w == "passwords" })
}

func isPath(v string) bool {
	if !strings.Contains(v, "/") || !pathForm.MatchString(v) {
		return false
	}
	at := strings.IndexByte(v, '/')
	if at > 0 {
		return true // ./x, ~/x, name:/x, C:/x
	}
	first, rest, more := strings.Cut(v[1:], "/")
	if roots[lowerASCII(first)] {
		return true
	}
	if fileName.MatchString(v[strings.LastIndexByte(v, '/')+1:]) {
		return true
	}
	return !isOpaque(v) && (more && rest != "" || !strings.ContainsAny(first, "0123456789"))
}

// name matches the name of a thing: words of small letters with dashes.
var name = regexp.MustCompile(`^[a-z]+(?:[-._/:][a-z]+)*(?:[-._/:][a-z]*\d{0,3})*\*?$`)

// isName reports whether a value looks like the name of a secret and not like the secret.
func isName(v string) bool {
	return name.MatchString(v) && (strings.ContainsAny(v, "-._/:") || len(v) < 8) || namesSecret(v)
}

// isOpaque reports whether a value looks random: long, one word, letters and digits mixed.
func isOpaque(v string) bool {
	if len(v) < 16 || strings.ContainsAny(v, " \t,;(){}<>") {
		return false
	}
	digits, uppers, lowers, runs := 0, 0, 0, 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case isDigit(c):
			digits++
			if i > 0 && !isDigit(v[i-1]) {
				runs++
			}
		case isUpper(c):
			uppers++
			if i > 0 && !isUpper(v[i-1]) {
				runs++
			}
		case isLower(c):
			lowers++
		case strings.IndexByte("+/=_-.~:@!#$%^&*", c) < 0:
			return false
		}
	}
	switch {
	case isHex(v):
		return digits > 2 && lowers+uppers > 2
	case digits > 0 && uppers > 0 && lowers > 0:
		return runs >= 3
	case digits > 1 && lowers+uppers > 5:
		return runs >= 4
	default:
		return uppers > 2 && lowers > 2 && runs >= len(v)/6
	}
}

func isHex(v string) bool { return strings.Trim(v, "0123456789abcdefABCDEF:-") == "" }

// translation matches files with the texts of a program in one language.
var translation = regexp.MustCompile(`(?:^|/)(?:locales?|i18n|lang|translations?|messages)/|/[a-z]{2}(?:[_-][A-Z]{2})?\.(?:ya?ml|json|po|properties|ini|toml)$`)

// isSecretValue decides about the value of a key of a weight.
func isSecretValue(w weight, v string, script bool) bool {
	v = strings.TrimSpace(v)
	if isReference(v, script) || isCertificate(v) {
		return false
	}
	short := strings.Trim(v, "0123456789") == "" && len(v) < 4
	switch w {
	case strongSecret:
		return !short
	case wordSecret:
		if v[0] == '-' && strings.Trim(v[1:], "0123456789") == "" || strings.HasPrefix(v, "sha256") || strings.HasPrefix(v, "sha512") {
			return false
		}
		return !short && !isName(v) && !(strings.Trim(v, "0123456789.smhd") == "" && len(v) < 6)
	case opaqueSecret:
		return isOpaque(v) && !isKeyID(v) && !strings.HasPrefix(v, "AAAA") && !strings.HasPrefix(lowerASCII(v), "sha")
	}
	return false
}

// isKeyID matches the names of keys, which are no secrets.
func isKeyID(v string) bool {
	return len(v) == 20 && strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && strings.HasPrefix(v, "A")
}

// isCertificate matches the beginning of a certificate or public key in base64.
func isCertificate(v string) bool {
	if !strings.HasPrefix(v, "LS0tLS1CRUdJTi") || len(v) < 24 {
		return false
	}
	return !isPrivateKeyBase64(v)
}

// isPrivateKeyBase64 matches the beginning of a private key in PEM in base64.
func isPrivateKeyBase64(v string) bool {
	n := min(len(v), 64) / 4 * 4
	head, err := base64.StdEncoding.DecodeString(v[:n])
	return err == nil && isPrivateKeyHead(string(head))
}

func isPrivateKeyHead(s string) bool {
	return strings.Contains(s, "-----BEGIN ") && (strings.Contains(s, "PRIVATE KEY") || strings.Contains(s, "OpenVPN Static key"))
}
