package classify

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// reference matches values that are not secrets themselves: variables, URLs, encrypted values, words of settings.
var reference = regexp.MustCompile(`(?i)^(?:` + strings.Join([]string{
	`true|false|yes|no|y|n|on|off|none|null|nil|undefined|never|always|required|requisite|sufficient|optional|include|substack|default|auto|ask|prompt|empty|unset|enabled?|disabled?|~`,
	`string|str|bytes|int|integer|number|boolean|bool|object|array|list|map|any|text|optional\[.*\]`,
	`prohibit-password|without-password|sha-?\d+|md5|scram-sha-256|bcrypt|yescrypt|plain|plaintext|hashed|encrypted|gssapi|x509|pbkdf2|argon2id?|negotiate|basic|bearer|digest|webhook|rbac|node|alwaysallow`,
	`\$\{.*\}|\$\(.*|\x60.*|%\([\w.]+\)s?|%[a-zA-Z%](?:/.*)?|\{\{.*|<[^<>]*>|@[\w.]+@|__\w+__|\{\$?[\w.]+\}|\{(?:env|file)[.:].*\}`,
	`\*+|x{3,}|\.{2,}|-+|_+|=+|…|\?+|redacted|\[?redacted\]?|hidden|omitted|masked|placeholder|todo|tbd|n/a`,
	`file:.*|(?:https?|unix|tcp|oci|docker|pkcs11|tpm2?|vault|op|ref\+\w+|awssm|gcpsm|arn|projects|ssm|secretsmanager|keyring|env|exec|awskms|gcpkms|azurekms|kms):.*`,
	`(?:ENC\[.*|!vault.*|\$ANSIBLE_VAULT.*|\{cipher\}.*|vault:v\d+:.*|ENC\(.*\)|age1[a-z0-9]+|age:.*|AgB[A-Za-z0-9+/=]{60,})`,
	`!(?:Ref|Sub|GetAtt|env|secret|include|reference|vault)\b.*`,
	`[&*][A-Za-z][\w-]*`, // This form is an anchor of YAML.
	`(?:process\.|os\.|var\.|local\.|data\.|module\.|self\.|this\.|config\.|settings\.|args\.|params\.|secrets\.|env\.|each\.)[\w.\[\]"'()]*`,
	`[A-Za-z_][\w.]*!?\(.*`, // This form is a call of a function.
	`\$__\w+\{.*|[A-Z]+\[.*\]|@/[\w./-]+|[\w.-]+,(?:type|target|mode|uid|id|src|source)=.*`,
	`(?:\\[SwWdDb]|\.[*+]|\[\^|\(\?|\(\[|\(\.|\[A-Za|\[a-z).*`, // This form is a regular expression.
	`[|>][+-]?\d?`,
	`(?:(?:files|compat|sss|systemd|ldap|nis|db|winbind|altfiles|mymachines|\[[^\]]*\])\s*)+`,
	`(?:your|my|the|change|replace|insert|enter|put)[-_ ](?:\w+[-_ ])*(?:here|password|token|secret|key|me)`,
}, "|") + `)$`)

// pathForm matches paths. A text that only begins with a slash can be base64.
var pathForm = regexp.MustCompile(
	`^(?:[\w.-]+[:=])?(?:~|\.{1,2}|[A-Za-z]:|\$\{?\w+\}?|%[hSdtE])?/(?:[\w.@%$*{}~-]+/?)*(?::[\w,]+)?$`)

// roots are the first names of absolute paths.
var roots = WordSet("etc var run usr home opt root dev srv tmp boot sys proc mnt data media lib bin sbin secrets " +
	"vault config app certs mount nix snap host host-etc keys")

// fileName matches names of files that hold secrets.
var fileName = regexp.MustCompile(
	`(?i)^[\w.@{}%$-]+\.(?:pem|key|crt|cer|txt|json|ya?ml|conf|cfg|ini|env|toml|p12|pfx|jks|keytab|secret|token|password|passwd|pub|gpg|asc|age|so|service|html|sock|py|sh)$`)

// variable matches a reference to a variable of a program.
var variable = regexp.MustCompile(`^\$(?:[A-Z_][A-Z0-9_]*|\d|[a-z]+_[a-z0-9_]*|[@*#?])$`)

// lowerVariable matches a variable that could be a password.
var lowerVariable = regexp.MustCompile(`^\$\w+$`)

var embedded = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\{\{[^}]*\}\}|%[a-zA-Z]\b|<[\w -]+>`)

// IsReference reports whether a value is not a secret for any key: empty, a switch, a variable, a path, an encrypted
// value.
func IsReference(v string, script bool) bool {
	v = strings.TrimSpace(v)
	switch {
	case v == "" || IsMark(v) || strings.Trim(v, `"',;:.\()[]{}|>`) == "":
		return true
	case strings.Contains(v, " ") && isProse(v), isIdentifierOfSecret(v):
		return true
	case reference.MatchString(v), variable.MatchString(v), IsPath(v), fileName.MatchString(v):
		return true
	case v[0] == '$' && lowerVariable.MatchString(v):
		return script || ContainsAny(LowerASCII(v), []string{"pass", "token", "secret", "key", "pw", "http_", "cred"})
	case strings.Contains(v, "$") || strings.Contains(v, "{{") || strings.Contains(v, "<"):
		return len(strings.Trim(embedded.ReplaceAllString(v, ""), " -_:/.@,\"'+=")) < 3
	}
	return false
}

// secretNoun matches a word for a secret in prose.
var secretNoun = regexp.MustCompile(`(?i)\b(?:password|passphrase|token|secret|passwort)s?\b`)

// isProse reports whether a value of several words is a sentence about a secret.
func isProse(v string) bool {
	words := strings.Count(v, " ") + 1
	return words > 1 && secretNoun.MatchString(v) && !strings.ContainsAny(v, "=0123456789") || words > 3 &&
		(strings.HasSuffix(v, ".") || strings.Contains(v, ". "))
}

// identifier matches a name in a program: words with dots, or in capitals.
var identifier = regexp.MustCompile(`^(?:[a-z_]+(?:\.[a-z_]+)+|[A-Z]+(?:_[A-Z]+)*)$`)

// isIdentifierOfSecret reports whether a value is a program's name for a secret: random_password.db.result, PASSWORD.
func isIdentifierOfSecret(v string) bool {
	return len(v) < 80 && identifier.MatchString(v) && namesSecret(v)
}

// namesSecret reports whether a value contains a word for a secret.
func namesSecret(v string) bool {
	return len(v) < 80 && strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-./") == "" &&
		slices.ContainsFunc(keyWords(v), func(w string) bool {
			return strongWords[w] || plainWords[w] || w == "passwords"
		})
}

// IsPath reports whether a value is a path.
func IsPath(v string) bool {
	if !strings.Contains(v, "/") || !pathForm.MatchString(v) {
		return false
	}
	at := strings.IndexByte(v, '/')
	if at > 0 {
		return true // ./x, ~/x, name:/x, C:/x
	}
	first, rest, more := strings.Cut(v[1:], "/")
	if roots[LowerASCII(first)] {
		return true
	}
	if fileName.MatchString(v[strings.LastIndexByte(v, '/')+1:]) {
		return true
	}
	return !IsRandom(v) && (more && rest != "" || !strings.ContainsAny(first, "0123456789"))
}

// name matches a name: words of small letters with dashes.
var name = regexp.MustCompile(`^[a-z]+(?:[-._/:][a-z]+)*(?:[-._/:][a-z]*\d{0,3})*\*?$`)

// IsName reports whether a value looks like the name of a secret rather than the secret.
func IsName(v string) bool {
	return name.MatchString(v) && (strings.ContainsAny(v, "-._/:") || len(v) < 8) || namesSecret(v)
}

// IsRandom reports whether a value looks random: long, one word, letters and digits mixed.
func IsRandom(v string) bool {
	if len(v) < 16 || strings.ContainsAny(v, " \t,;(){}<>") {
		return false
	}
	var n counts
	for i := 0; i < len(v); i++ {
		if !n.add(v, i) {
			return false
		}
	}
	switch {
	case IsHex(v):
		return n.digits > 2 && n.lowers+n.uppers > 2
	case n.digits > 0 && n.uppers > 0 && n.lowers > 0:
		return n.runs >= 3
	case n.digits > 1 && n.lowers+n.uppers > 5:
		return n.runs >= 4
	}
	return n.uppers > 2 && n.lowers > 2 && n.runs >= len(v)/6
}

// counts has the numbers of each kind of characters in a value. runs counts the places where digits or capitals begin.
type counts struct{ digits, uppers, lowers, runs int }

// add counts one character. add returns false for a character that random values do not have.
func (n *counts) add(v string, i int) bool {
	switch c := v[i]; {
	case isDigit(c):
		n.digits++
		if i > 0 && !isDigit(v[i-1]) {
			n.runs++
		}
	case isUpper(c):
		n.uppers++
		if i > 0 && !isUpper(v[i-1]) {
			n.runs++
		}
	case isLower(c):
		n.lowers++
	default:
		return strings.IndexByte("+/=_-.~:@!#$%^&*", c) >= 0
	}
	return true
}

// IsHex reports whether a value consists of hex digits, which colons and dashes may separate.
func IsHex(v string) bool { return strings.Trim(v, "0123456789abcdefABCDEF:-") == "" }

// isNumber reports whether a value consists of digits.
func isNumber(v string) bool { return strings.Trim(v, "0123456789") == "" }

// IsSecret reports whether the value of a key is a secret. The parameter script is true in a shell script.
func IsSecret(c Certainty, v string, script bool) bool {
	v = strings.TrimSpace(v)
	if IsReference(v, script) || isCertificate(v) || isNumber(v) && len(v) < 4 {
		return false
	}
	switch c {
	case Always:
		return true
	case UnlessName:
		return !IsName(v) && !isNumberOrDigest(v)
	case IfRandom:
		return IsRandom(v) && !isKeyID(v) && !strings.HasPrefix(v, "AAAA") && !strings.HasPrefix(LowerASCII(v), "sha")
	}
	return false
}

// isNumberOrDigest reports whether a value is a duration, a negative number or the name of a digest.
func isNumberOrDigest(v string) bool {
	isDuration := strings.Trim(v, "0123456789.smhd") == "" && len(v) < 6
	isNegative := v[0] == '-' && isNumber(v[1:])
	return isDuration || isNegative || strings.HasPrefix(v, "sha256") || strings.HasPrefix(v, "sha512")
}

// isKeyID reports whether a value is the ID of an access key, which is not a secret.
func isKeyID(v string) bool {
	return len(v) == 20 && strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && strings.HasPrefix(v, "A")
}

// isCertificate reports whether a value is the beginning of a certificate or public key in base64.
func isCertificate(v string) bool {
	if !strings.HasPrefix(v, "LS0tLS1CRUdJTi") || len(v) < 24 {
		return false
	}
	return !IsPrivateKeyBase64(v)
}

// IsPrivateKeyBase64 reports whether a value is the beginning of a private key in PEM in base64.
func IsPrivateKeyBase64(v string) bool {
	n := min(len(v), 64) / 4 * 4
	head, err := base64.StdEncoding.DecodeString(v[:n])
	return err == nil && IsPrivateKeyHead(string(head))
}

// IsPrivateKeyHead reports whether a text contains the first line of a private key.
func IsPrivateKeyHead(s string) bool {
	return strings.Contains(s, "-----BEGIN ") && (strings.Contains(s, "PRIVATE KEY") || strings.Contains(s,
		"OpenVPN Static key"))
}

// Hidden replaces a secret in a masked text.
const Hidden = "(hidden)"

// IsMark reports whether a value is a mark that replaces a secret.
func IsMark(v string) bool {
	if v == Hidden {
		return true
	}
	rest, ok := strings.CutPrefix(v, "(hidden, sha256 ")
	return ok && len(rest) == len("ab12…)") && strings.HasSuffix(rest, "…)")
}

// IsWordByte reports whether a byte is an ASCII letter, a digit or an underscore.
func IsWordByte(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) || c == '_' }

// LowerASCII returns a text with ASCII letters in lower case, which keeps all offsets.
func LowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isUpper(c) {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// ContainsAny reports whether a text contains one of the words, or there are no words.
func ContainsAny(s string, words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}
