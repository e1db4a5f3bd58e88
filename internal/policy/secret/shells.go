package secret

import (
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

var (
	// piped matches a password that echo passes to a program.
	piped = regexp.MustCompile(
		`(?:echo|printf)\s+(?:-\w+\s+)*(?:['"]?%s\S*['"]?\s+)?(?:"([^"]+)"|'([^']+)'|(\S+))\s*\|\s*(?:sudo\s+)?(?:\S*/)?(chpasswd|passwd\s+\S*--stdin|passwd\s+--stdin|cryptsetup|sudo\s+-S|docker\s+login|podman\s+login)|(chpasswd|cryptsetup\b[^<]*|sudo\s+-S[^<]*)<<<\s*(?:"([^"]+)"|'([^']+)'|(\S+))`)
	// account matches user:password.
	account = regexp.MustCompile(`^\s*(?:- )?["']?[a-z_][\w.-]*:([^\s"'#][^"'\\]*)`)
	// heredoc matches a here document for chpasswd, and chpasswdList the list of cloud-init.
	heredoc      = regexp.MustCompile(`chpasswd\b.*<<-?\s*["']?(\w+)`)
	chpasswdList = regexp.MustCompile(`^\s*chpasswd:`)
	listStart    = regexp.MustCompile(`^\s*(?:list|users):`)
)

// pipedPasswords masks passwords that a shell passes to a program, and those of chpasswd in cloud-init.
func pipedPasswords(t *text, rule string) {
	end, cloud := "", -1
	for i := range t.lines {
		l := t.at(i, rule)
		maskPiped(l)
		switch s := l.s; {
		case end != "" && strings.TrimSpace(s) == end:
			end = ""
		case end != "":
			maskAccount(l)
		case heredoc.MatchString(s):
			end = heredoc.FindStringSubmatch(s)[1]
		case chpasswdList.MatchString(s):
			cloud = syntax.Indent(s)
		case cloud >= 0 && strings.TrimSpace(s) != "" && syntax.Indent(s) <= cloud:
			cloud = -1
		case cloud >= 0 && !listStart.MatchString(s) && !strings.Contains(s, ": "):
			maskAccount(l)
		}
	}
}

// maskPiped masks the password in a line such as echo root:x | chpasswd.
func maskPiped(l line) {
	for _, m := range piped.FindAllStringSubmatchIndex(l.s, -1) {
		isProgram := func(g int) bool { return m[g] >= 0 && l.s[m[g]:m[g+1]] == "chpasswd" }
		for _, g := range []int{2, 4, 6, 12, 14, 16} {
			if m[g] < 0 {
				continue
			}
			from := m[g]
			if isProgram(8) || isProgram(10) {
				from += strings.Index(l.s[m[g]:m[g+1]], ":") + 1
			}
			if v := strings.TrimSuffix(l.s[from:m[g+1]], `\n`); !classify.IsReference(v, true) {
				l.mask(from, from+len(v))
			}
		}
	}
}

// maskAccount masks the password of a line user:password.
func maskAccount(l line) {
	m := account.FindStringSubmatchIndex(l.s)
	if m == nil {
		return
	}
	v := strings.TrimRight(l.s[m[2]:m[3]], " \t")
	if v != "R" && v != "RANDOM" && !classify.IsReference(v, true) {
		l.mask(m[2], m[2]+len(v))
	}
}

// snmpForms matches the lines of SNMP that name a community or the keys of a user.
var snmpForms = regexp.MustCompile(
	`(?i)^\s*(?:r[ow]community6?\s+(\S+)|trapcommunity\s+(\S+)|authcommunity\s+\S+\s+(\S+)|com2sec6?\s+(?:-Cn\s+\S+\s+)?\S+\s+\S+\s+(\S+)|(?:trap2?sink|informsink)\s+\S+\s+([^\s\d]\S*)|createUser\s+(?:-e\s+\S+\s+)?\S+\s+(?:MD5|SHA[\d-]*)\s+("[^"]+"|\S+)(?:\s+(?:DES|AES[\d-]*)(?:\s+("[^"]+"|\S+))?)?|usmUser\s+\d+\s+\d+\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)(?:\s+\S+\s+(\S+))?|(?:defAuthPassphrase|defPrivPassphrase|defPassphrase|defCommunity)\s+(\S+)|snmp-server\s+community\s+(\S+))`)

// snmp masks communities, and the passphrases of users.
func snmp(l line) {
	m := snmpForms.FindStringSubmatchIndex(l.s)
	for g := 2; g+1 < len(m); g += 2 {
		if m[g] < 0 {
			continue
		}
		from, end := syntax.TrimQuotes(l.s[:m[g+1]], m[g])
		if !classify.IsReference(l.s[from:end], true) {
			l.mask(from, end)
		}
	}
}

var (
	section    = regexp.MustCompile(`^\s*\[([^\]]+)\]\s*$`)
	connection = regexp.MustCompile(
		`^\s*(?:wep-key\d|pin|password-raw|mka-cak|mka-ckn|leap-password|psk)\s*=\s*(\S.*?)\s*$`)
	vpnMember = regexp.MustCompile(`^\s*[^#\s=][^=]*=\s*(\S.*?)\s*$`)
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
		if m := form.FindStringSubmatchIndex(s); m != nil && in != "" && !classify.IsReference(s[m[2]:m[3]], false) {
			t.at(i, rule).mask(m[2], m[3])
		}
	}
}
