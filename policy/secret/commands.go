package secret

import (
	"slices"
	"strings"
)

// commandRules go by a program or a keyword of a known syntax.
var commandRules = []Rule{
	{Name: "command-password", Purpose: "passwords among the arguments of programs: mysql -px, sshpass -p x, curl -u me:x", words: []string{
		"mysql", "mariadb", "sshpass", "curl", "wget", "login", "redis-cli", "ldap", "ipmitool", "smbclient", "ssh-keygen", "openssl", "mosquitto_", "rabbitmqctl", "wpa_passphrase", "useradd", "usermod", "zip", "7z", "mongo", "htpasswd", "nmcli", "snmp", "lftp", "xfreerdp", "rclone", "kinit", "influx", "keytool", "sqlcmd", "racadm", "psql", "http ", "nsupdate", "vault", "plink", "samba-tool", "realm", "cryptsetup", "rsync", "clickhouse-client", "cqlsh", "borg", "iscsiadm", "elasticdump", "mount", "net ",
	}, line: commandPasswords},
	{Name: "command-password", Purpose: "passwords that a shell hands to chpasswd and passwd", words: []string{"chpasswd", "passwd", "cryptsetup", "sudo -s"}, text: pipedPasswords},
	{Name: "netrc-password", Purpose: "passwords of netrc and apt's auth.conf", words: []string{"password", "login"}, line: pattern(`(?i)(?:^|\s)(?:login|account|machine|default)\s.*?\bpassword\s+("[^"]+"|\S+)|^\s*machine\s+\S+\s+password\s+(\S+)`, notReference)},
	{Name: "router-password", Purpose: "passwords and keys of routers: neighbor x password y", words: []string{"password", "key", "secret", "authentication"}, line: pattern(
		`(?i)^\s*(?:neighbor\s+\S+\s+password|(?:enable\s+|domain-|area-)?(?:password|secret)(?:\s+(?:clear|md5|level\s+\d+))?(?:\s+\d)?|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:password|secret)(?:\s+\d)?|.*\bmessage-digest-key\s+\d+\s+(?:md5|hmac-sha-\d+)|key-string(?:\s+\d)?|.*\bauthentication-key|isis\s+password(?:\s+(?:clear|md5))?|.*\bauthentication\s+(?:text|string)|(?:radius|tacacs)-server\s+.*\bkey(?:\s+\d)?)\s+"?([^\s"';|{}=:]+)"?;?\s*$`, isRouterPassword)},
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
	{Name: "jwk-private-key", Purpose: "private members of JSON Web Keys", words: []string{"\"kty\""}, text: jsonWebKeys},
	{Name: "acl-token", Purpose: "tokens of Consul and Nomad", words: []string{"agent", "initial_management", "replication", "default"}, line: pattern(`(?i)\b(?:agent|master|initial_management|agent_recovery|agent_master|replication|default|config_file_service_registration|dns)"?\s*[=:]\s*"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"`, anything)},
}

// isMixed takes values with letters and something else.
func isMixed(v string) bool {
	return !isReference(v, true) && !isName(v) && strings.Trim(v, "0123456789") != "" && strings.ContainsAny(v, "0123456789.-_!@#%+=ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// isRouterPassword leaves out words of PAM and of prose.
func isRouterPassword(v string) bool {
	return !isReference(v, false) && !strings.HasSuffix(v, ".so") && !strings.HasSuffix(v, ".") && !slices.Contains([]string{"policy", "authentication", "encryption", "required", "changes", "file", "chain", "manager", "expiry", "aging", "prompt", "string"}, v)
}

// argument is how a program takes a password.
type argument struct {
	programs []string
	flags    []string
	// user tells that the password follows a user and a colon (or what splits them).
	split string
	// joined tells that the password can follow the flag without a blank.
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

// mostArguments is how many words behind a program are looked at.
const mostArguments = 100

// commandPasswords masks passwords among the arguments of known programs.
func commandPasswords(t *text, i int, rule string) {
	words := tokens(t.line(i))
	for n, w := range words {
		rest := words[n+1 : min(n+1+mostArguments, len(words))]
		program := w.s[strings.LastIndexAny(w.s, "/(`=\"'[")+1:]
		program = strings.Trim(program, `",`)
		for _, a := range arguments {
			if slices.Contains(a.programs, program) {
				maskArgument(t, i, rest, a, rule)
			}
		}
		maskPositional(t, i, program, rest, rule)
	}
}

// maskArgument masks the password of one program, up to the end of its command.
func maskArgument(t *text, i int, words []token, a argument, rule string) {
	for n, w := range words {
		if w.s == "|" || w.s == "&&" || w.s == "||" || w.s == ";" {
			return
		}
		s := strings.Trim(w.s, `",`)
		for _, f := range a.flags {
			value, from := "", 0
			switch {
			case s == f && n+1 < len(words) && !strings.HasPrefix(words[n+1].s, "-") && (!a.joined || f != "-p" || a.programs[0] != "mysql"):
				value, from = words[n+1].s, words[n+1].start
			case a.joined && strings.HasPrefix(s, f) && len(s) > len(f) && !strings.HasPrefix(f, "--"), strings.HasPrefix(f, "--") && strings.HasPrefix(s, f+"="):
				from = w.start + strings.Index(w.s, f) + len(f)
				value = t.line(i)[from:w.end]
			default:
				continue
			}
			maskArgumentValue(t, i, value, from, a, rule)
		}
	}
}

func maskArgumentValue(t *text, i int, value string, from int, a argument, rule string) {
	trimmed := strings.TrimLeft(value, `"'=`)
	from += len(value) - len(trimmed)
	value = strings.TrimRight(trimmed, `"',;)`)
	if a.split != "" {
		user, password, ok := strings.Cut(value, a.split)
		if !ok || strings.Trim(password, "0123456789") == "" && strings.Trim(user, "0123456789") == "" || slices.Contains([]string{"file", "env", "fd"}, user) {
			return
		}
		from += len(user) + len(a.split)
		value = password
	}
	if !isReference(value, true) && !(a.split == "" && (value == "none" || strings.HasPrefix(value, "-"))) {
		t.mask(i, from, from+len(value), rule)
	}
}

// positional are programs that take a password by its place: how many words follow the verb before it.
var positional = map[string]int{"add_user": 1, "change_password": 1, "authenticate_user": 1, "wpa_passphrase": 1}

func maskPositional(t *text, i int, program string, words []token, rule string) {
	at, ok := positional[program]
	if ok && len(words) > at && !isReference(words[at].s, true) {
		t.mask(i, words[at].start, words[at].end, rule)
	}
	if program == "htpasswd" && len(words) >= 4 && strings.HasPrefix(words[0].s, "-") && strings.Contains(words[0].s, "b") && !isReference(words[3].s, true) {
		t.mask(i, words[3].start, words[3].end, rule)
	}
	if program != "nmcli" {
		return
	}
	for n := 0; n+1 < len(words); n++ {
		if isSecretValue(min(weigh(words[n].s), strongSecret), words[n+1].s, true) && strings.IndexByte(words[n].s, '=') < 0 {
			t.mask(i, words[n+1].start, words[n+1].end, rule)
		}
	}
}
