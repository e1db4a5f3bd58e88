package secret

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// commandRules find a program or a keyword of a known syntax.
var commandRules = []Rule{
	{Name: "command-password", Purpose: "passwords among the arguments of programs: mysql -px, sshpass -p x, curl " +
		"-u me:x", words: []string{
		"mysql", "mariadb", "sshpass", "curl", "wget", "login", "redis-cli", "ldap", "ipmitool", "smbclient",
		"ssh-keygen", "openssl", "mosquitto_", "rabbitmqctl", "wpa_passphrase", "useradd", "usermod", "zip", "7z",
		"mongo", "htpasswd", "nmcli", "snmp", "lftp", "xfreerdp", "rclone", "kinit", "influx", "keytool", "sqlcmd",
		"racadm", "psql", "http ", "nsupdate", "vault", "plink", "samba-tool", "realm", "cryptsetup", "rsync",
		"clickhouse-client", "cqlsh", "borg", "iscsiadm", "elasticdump", "mount", "net ",
	}, line: commandPasswords},
	{Name: "command-password", Purpose: "passwords that a shell hands to chpasswd and passwd", words: []string{"chpasswd", "passwd", "cryptsetup", "sudo -s"}, text: pipedPasswords},
	{Name: "netrc-password", Purpose: "passwords of netrc and apt's auth.conf", words: []string{"password", "login"}, line: pattern(`(?i)(?:^|\s)(?:login|account|machine|default)\s.*?\bpassword\s+("[^"]+"|\S+)|^\s*machine\s+\S+\s+password\s+(\S+)`, notReference)},
	{
		Name: "router-password", Purpose: "passwords and keys of routers: neighbor x password y",
		words: []string{"password", "key", "secret", "authentication"}, line: pattern(
			`(?i)^\s*(?:neighbor\s+\S+\s+password|(?:enable\s+|domain-|area-)?(?:password|secret)(?:\s+(?:clear|md5|level\s+\d+))?(?:\s+\d)?|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:password|secret)(?:\s+\d)?|.*\bmessage-digest-key\s+\d+\s+(?:md5|hmac-sha-\d+)|key-string(?:\s+\d)?|.*\bauthentication-key|isis\s+password(?:\s+(?:clear|md5))?|.*\bauthentication\s+(?:text|string)|(?:radius|tacacs)-server\s+.*\bkey(?:\s+\d)?)\s+"?([^\s"';|{}=:]+)"?;?\s*$`, isRouterPassword),
	},
	{Name: "proxy-password", Purpose: "passwords of HAProxy and Squid", words: []string{"stats", "user ", "login="}, line: pattern(`(?i)^\s*stats\s+auth\s+[^\s:]+:(\S+)|^\s*user\s+\S+\s+(?:insecure-)?password\s+(\S+)|\blogin=[^\s:]+:(\S+)`, notReference)},
	{Name: "redis-user", Purpose: "passwords in the ACLs of Redis", words: []string{"user "}, line: pattern(`^\s*user\s+\S+\s+.*?[>#](\S{3,})`, anything)},
	{Name: "snmp-community", Purpose: "communities and users of SNMP", words: []string{"community", "com2sec", "createuser", "trap", "usmuser", "authphrase", "privphrase"}, line: snmp},
	{Name: "ipsec-secret", Purpose: "keys and passwords in ipsec.secrets", words: []string{"psk", "eap", "xauth", "rsa", "ntlm", "pin", "ecdsa", "pkcs"}, line: pattern(`(?:^|\s|:)\s*(?:PSK|EAP|XAUTH|NTLM|PIN)\s+(?:%prompt|"([^"]+)"|(0[sx]\S+|[^\s"=:#]\S*)\s*$)|:\s*(?:RSA|ECDSA|P12|PKCS8|PKCS12)\s+\S+\s+"([^"]+)"`, notReference)},
	{Name: "quoted-secret", Purpose: "keys of name servers, DRBD and daemons in braces: secret \"x\";", words: []string{"secret", "password", "psk", "key"}, line: pattern(`(?i)(?:^|[\s{;])(?:shared-)?(?:secret|password|psk|passphrase|encryption-key)\s+["']([^"'\s]{3,})["']`, notReference)},
	{Name: "installer-password", Purpose: "passwords of Kickstart and preseed", words: []string{"rootpw", "passwd/", "sshpw", "bootloader", "password", "vnc"}, line: pattern(`^\s*(?:rootpw|sshpw)\s+(?:--\S+\s+)*([^\s-]\S*)|^\s*(?:d-i\s+)?\S*passw\S*/\S*password\S*\s+password\s+(\S+)|^\s*d-i\s+\S+\s+password\s+(\S+)|^\s*password_pbkdf2\s+[\w.-]+\s+(\S+)\s*$`, isRouterPassword)},
	{Name: "credential-setting", Purpose: "credentials in units of systemd: SetCredential=name:x", words: []string{"setcredential="}, line: pattern(`^\s*SetCredential=[^:\s]+:(.+?)\s*\\?$`, notReference)},
	{Name: "radius-password", Purpose: "passwords of users in FreeRADIUS", words: []string{"password", "-hash"}, line: pattern(`(?i)\b(?:cleartext|user|nt|lm|crypt|ssha\d*|smd5|sha\d*|md5)-password\s*:?=+\s*"?([^"\s,]+)`, notReference)},
	{Name: "connection-secret", Purpose: "secrets of connections of NetworkManager", words: []string{"[vpn-secrets]", "password-raw", "pin=", "mka-cak", "wep-key"}, text: vpnSecrets},
	{Name: "dsn-password", Purpose: "passwords in the names of data sources: user:x@tcp(host)", words: []string{"@"}, line: pattern(`(?:^|["'=\s])[\w.-]+:([^\s@:"'/]+)@\w*\(`, notReference)},
	{Name: "sql-password", Purpose: "passwords in SQL", words: []string{"identified", "password"}, line: pattern(`(?i)\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?['"]([^'"]+)['"]|\bpassword\s+'([^']+)'`, notReference)},
	{Name: "user-password", Purpose: "passwords behind a user and a colon: user = me:x", words: []string{"user", "login"}, line: pattern(`(?i)(?:^|[\s_"'])(?:user|userpwd|proxy-user|login)["']?\s*[=:]\s*["']?[A-Za-z_][\w.@-]*:([^\s"':/,;@]{6,})["']?\s*$`, isMixed)},
	{Name: "tsig-key", Purpose: "keys of name servers as an argument: nsupdate -y hmac:name:x", words: []string{"nsupdate", "dig", "knsupdate", "kdig"}, line: pattern(`\s-y\s*["']?(?:[\w-]+:)?[\w.-]+:([A-Za-z0-9+/=]{8,})`, anything)},
	{Name: "subscription-token", Purpose: "tokens that attach a machine to a subscription", words: []string{"attach"}, line: pattern(`\b(?:pro|ua|ubuntu-advantage)\s+attach\s+(?:--\S+\s+)*([A-Za-z0-9]{20,})`, anything)},
	{Name: "environment-value", Purpose: "values of environment variables that name a secret, of containers", words: []string{"name"}, text: environmentValues},
	{Name: "openvpn-login", Purpose: "the password of a log-in within OpenVPN's configuration", words: []string{"<auth-user-pass>"}, text: openvpnLogins},
	{Name: "jwk-private-key", Purpose: "private members of JSON Web Keys", words: []string{"\"kty\""}, text: everyLine(pattern(`"(?:d|p|q|dp|dq|qi|k)"\s*:\s*"([\w=-]{8,})"`, anything))},
	{Name: "acl-token", Purpose: "tokens of Consul and Nomad", words: []string{"agent", "initial_management", "replication", "default"}, line: pattern(`(?i)\b(?:agent|master|initial_management|agent_recovery|agent_master|replication|default|config_file_service_registration|dns)"?\s*[=:]\s*"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"`, anything)},
}

// isMixed reports whether a value has letters and other characters.
func isMixed(v string) bool {
	return !classify.IsReference(v, true) && !classify.IsName(v) && strings.Trim(v, "0123456789") != "" &&
		strings.ContainsAny(v, "0123456789.-_!@#%+=ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// isRouterPassword reports whether a value is not a word of PAM or of prose.
func isRouterPassword(v string) bool {
	return !classify.IsReference(v, false) && !strings.HasSuffix(v, ".so") && !strings.HasSuffix(v, ".") &&
		!slices.Contains([]string{
			"policy", "authentication", "encryption", "required", "changes", "file", "chain",
			"manager", "expiry", "aging", "prompt", "string",
		}, v)
}

// argument describes how programs take a password.
type argument struct {
	programs []string
	flags    []string
	// split is the text that separates a user from the password, or empty.
	split string
	// joined is true if the password can follow the flag without a blank.
	joined bool
}

var arguments = []argument{
	{programs: []string{"mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin", "mysqlimport", "mysqlcheck", "mariadb-backup", "mysqlsh"}, flags: []string{"-p"}, joined: true},
	{programs: []string{"sshpass", "7z", "7za"}, flags: []string{"-p"}, joined: true},
	{programs: []string{"zip", "unzip", "ipmitool", "mosquitto_pub", "mosquitto_sub", "sqlcmd", "bcp"}, flags: []string{"-P"}, joined: true},
	{programs: []string{"curl", "wget", "lftp", "http", "https"}, flags: []string{"-u", "--user", "-U", "--proxy-user", "-a"}, split: ":"},
	{programs: []string{"login", "mongo", "mongosh", "mongodump", "mongorestore", "useradd", "usermod", "influx", "racadm", "cqlsh", "clickhouse-client"}, flags: []string{"-p"}},
	{programs: []string{"redis-cli"}, flags: []string{"-a"}},
	{programs: []string{"ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"}, flags: []string{"-w", "-s"}},
	{programs: []string{"smbclient", "net", "rpcclient", "samba-tool"}, flags: []string{"-U", "--user"}, split: "%"},
	{programs: []string{"ssh-keygen"}, flags: []string{"-N", "-P"}},
	{programs: []string{"openssl"}, flags: []string{"-passin", "-passout", "-pass"}, split: ":"},
	{programs: []string{"openssl"}, flags: []string{"-k"}},
	{programs: []string{"plink", "pscp"}, flags: []string{"-pw"}},
	{programs: []string{"keytool"}, flags: []string{"-storepass", "-keypass", "-srcstorepass", "-deststorepass"}},
	{programs: []string{"snmpget", "snmpwalk", "snmpset", "snmptrap", "snmpbulkwalk", "check_snmp"}, flags: []string{"-A", "-X", "-c", "-C"}},
	{programs: []string{"xfreerdp"}, flags: []string{"/p:"}, joined: true},
}

// maxArguments is how many words after the name of a program count as its arguments.
const maxArguments = 100

// commandPasswords masks passwords in the arguments of known programs.
func commandPasswords(l line) {
	words := syntax.Tokens(l.s)
	for n, w := range words {
		rest := words[n+1 : min(n+1+maxArguments, len(words))]
		program := strings.Trim(w.S[strings.LastIndexAny(w.S, "/(`=\"'[")+1:], `",`)
		for _, a := range arguments {
			if slices.Contains(a.programs, program) {
				maskArguments(l, rest, a)
			}
		}
		maskPositional(l, program, rest)
	}
}

// maskArguments masks the passwords of one program, up to the end of its command.
func maskArguments(l line, words []syntax.Token, a argument) {
	for n, w := range words {
		if slices.Contains([]string{"|", "&&", "||", ";"}, w.S) {
			return
		}
		for _, flag := range a.flags {
			if value, ok := a.valueOf(flag, words[n:]); ok {
				maskArgument(l, value, a)
			}
		}
	}
}

// valueOf returns the value of a flag, if the first word is the flag.
func (a argument) valueOf(flag string, words []syntax.Token) (value syntax.Token, ok bool) {
	w := words[0]
	s := strings.Trim(w.S, `",`)
	isLong := strings.HasPrefix(flag, "--")
	switch {
	case s == flag && len(words) > 1 && !strings.HasPrefix(words[1].S, "-") &&
		(!a.joined || flag != "-p" || a.programs[0] != "mysql"):
		return words[1], true
	case a.joined && !isLong && strings.HasPrefix(s, flag) && len(s) > len(flag), isLong &&
		strings.HasPrefix(s, flag+"="):
		from := strings.Index(w.S, flag) + len(flag)
		return syntax.Token{Start: w.Start + from, End: w.End, S: w.S[from:]}, true
	}
	return syntax.Token{}, false
}

// maskArgument masks the password in the value of a flag.
func maskArgument(l line, w syntax.Token, a argument) {
	trimmed := strings.TrimLeft(w.S, `"'=`)
	from := w.Start + len(w.S) - len(trimmed)
	value := strings.TrimRight(trimmed, `"',;)`)
	if a.split == "" && (value == "none" || strings.HasPrefix(value, "-")) {
		return
	}
	if a.split != "" {
		user, password, ok := strings.Cut(value, a.split)
		isIDs := strings.Trim(password, "0123456789") == "" && strings.Trim(user, "0123456789") == ""
		if !ok || isIDs || slices.Contains([]string{"file", "env", "fd"}, user) {
			return
		}
		from += len(user) + len(a.split)
		value = password
	}
	if !classify.IsReference(value, true) {
		l.mask(from, from+len(value))
	}
}

// positional has the programs and verbs with a password as an argument, and the number of arguments before it.
var positional = map[string]int{"add_user": 1, "change_password": 1, "authenticate_user": 1, "wpa_passphrase": 1}

// maskPositional masks the passwords of programs that take them without a flag.
func maskPositional(l line, program string, words []syntax.Token) {
	at, ok := positional[program]
	if program == "htpasswd" && len(words) > 0 {
		at, ok = 3, strings.HasPrefix(words[0].S, "-") && strings.Contains(words[0].S, "b")
	}
	if ok && len(words) > at && !classify.IsReference(words[at].S, true) {
		l.mask(words[at].Start, words[at].End)
	}
	if program != "nmcli" {
		return
	}
	for n := 0; n+1 < len(words); n++ {
		if classify.IsSecret(classify.Key(words[n].S), words[n+1].S, true) && strings.IndexByte(words[n].S, '=') < 0 {
			l.mask(words[n+1].Start, words[n+1].End)
		}
	}
}
