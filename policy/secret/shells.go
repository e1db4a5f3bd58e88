package secret

import (
	"regexp"
	"strings"
)

var (
	// piped is a password that echo hands to a program.
	piped = regexp.MustCompile(`(?:echo|printf)\s+(?:-\w+\s+)*(?:['"]?%s\S*['"]?\s+)?(?:"([^"]+)"|'([^']+)'|(\S+))\s*\|\s*(?:sudo\s+)?(?:\S*/)?(chpasswd|passwd\s+\S*--stdin|passwd\s+--stdin|cryptsetup|sudo\s+-S|docker\s+login|podman\s+login)|(chpasswd|cryptsetup\b[^<]*|sudo\s+-S[^<]*)<<<\s*(?:"([^"]+)"|'([^']+)'|(\S+))`)
	// account is user:password.
	account = regexp.MustCompile(`^\s*(?:- )?["']?[a-z_][\w.-]*:([^\s"'#][^"'\\]*)`)
	// heredoc is a here document for chpasswd, and chpasswdList the list of cloud-init.
	heredoc      = regexp.MustCompile(`chpasswd\b.*<<-?\s*["']?(\w+)`)
	chpasswdList = regexp.MustCompile(`^\s*chpasswd:`)
	listStart    = regexp.MustCompile(`^\s*(?:list|users):`)
)

// pipedPasswords masks passwords that a shell hands to a program, and those of chpasswd in cloud-init.
func pipedPasswords(t *text, rule string) {
	end, cloud := "", -1
	for i := range t.lines {
		s := t.line(i)
		switch {
		case end != "":
			if strings.TrimSpace(s) == end {
				end = ""
				continue
			}
			maskAccount(t, i, 0, rule)
		case heredoc.MatchString(s):
			end = heredoc.FindStringSubmatch(s)[1]
		case chpasswdList.MatchString(s):
			cloud = indentOf(s)
		case cloud >= 0 && strings.TrimSpace(s) != "" && indentOf(s) <= cloud:
			cloud = -1
		case cloud >= 0 && !listStart.MatchString(s) && !strings.Contains(s, ": "):
			maskAccount(t, i, 0, rule)
		}
		for _, m := range piped.FindAllStringSubmatchIndex(s, -1) {
			chpasswd := m[8] >= 0 && s[m[8]:m[9]] == "chpasswd" || m[10] >= 0 && s[m[10]:m[11]] == "chpasswd"
			for _, g := range []int{2, 4, 6, 12, 14, 16} {
				if m[g] < 0 {
					continue
				}
				from := m[g]
				if chpasswd {
					from += strings.Index(s[m[g]:m[g+1]], ":") + 1
				}
				v := strings.TrimSuffix(s[from:m[g+1]], `\n`)
				if !isReference(v, true) {
					t.mask(i, from, from+len(v), rule)
				}
			}
		}
	}
}

// maskAccount masks the password of a line user:password.
func maskAccount(t *text, i, from int, rule string) {
	m := account.FindStringSubmatchIndex(t.line(i)[from:])
	if m == nil {
		return
	}
	v := strings.TrimRight(t.line(i)[from+m[2]:from+m[3]], " \t")
	if v != "R" && v != "RANDOM" && !isReference(v, true) {
		t.mask(i, from+m[2], from+m[2]+len(v), rule)
	}
}

// snmpForms are the lines of SNMP that name a community or the keys of a user.
var snmpForms = regexp.MustCompile(`(?i)^\s*(?:r[ow]community6?\s+(\S+)|trapcommunity\s+(\S+)|authcommunity\s+\S+\s+(\S+)|com2sec6?\s+(?:-Cn\s+\S+\s+)?\S+\s+\S+\s+(\S+)|(?:trap2?sink|informsink)\s+\S+\s+([^\s\d]\S*)|createUser\s+(?:-e\s+\S+\s+)?\S+\s+(?:MD5|SHA[\d-]*)\s+("[^"]+"|\S+)(?:\s+(?:DES|AES[\d-]*)(?:\s+("[^"]+"|\S+))?)?|usmUser\s+\d+\s+\d+\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)(?:\s+\S+\s+(\S+))?|(?:defAuthPassphrase|defPrivPassphrase|defPassphrase|defCommunity)\s+(\S+)|snmp-server\s+community\s+(\S+))`)

// snmp masks communities, and the passphrases of users.
func snmp(t *text, i int, rule string) {
	m := snmpForms.FindStringSubmatchIndex(t.line(i))
	for g := 2; g+1 < len(m); g += 2 {
		if m[g] < 0 {
			continue
		}
		from, end := trimQuotes(t.line(i)[:m[g+1]], m[g])
		if !isReference(t.line(i)[from:end], true) {
			t.mask(i, from, end, rule)
		}
	}
}

var (
	section    = regexp.MustCompile(`^\s*\[([^\]]+)\]\s*$`)
	connection = regexp.MustCompile(`^\s*(?:wep-key\d|pin|password-raw|mka-cak|mka-ckn|leap-password|psk)\s*=\s*(\S.*?)\s*$`)
	vpnMember  = regexp.MustCompile(`^\s*[^#\s=][^=]*=\s*(\S.*?)\s*$`)
)

// vpnSecrets masks the secrets of a connection of NetworkManager: known keys, and everything in [vpn-secrets].
func vpnSecrets(t *text, rule string) {
	in := ""
	for i := range t.lines {
		s := t.line(i)
		if m := section.FindStringSubmatch(s); m != nil {
			in = m[1]
			continue
		}
		form := connection
		if in == "vpn-secrets" {
			form = vpnMember
		}
		if m := form.FindStringSubmatchIndex(s); m != nil && in != "" && !isReference(s[m[2]:m[3]], false) {
			t.mask(i, m[2], m[3], rule)
		}
	}
}
