package secretmask

import (
	"encoding/base64"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// SamplesAnnotation on MachineConfiguration cluster names files whose credentials are public samples, such as the key
// of an example: `/docs/sample.pem, /tests/`. The first slash is the top of the repository.
const SamplesAnnotation = "review.bunsen.dev/public-samples"

// AgeKey is the Kind of private keys of age.
const AgeKey = "private key of age"

// Credential is a credential in clear text.
type Credential struct {
	// Kind is for people, such as "GitHub token".
	Kind string
	// Offset in bytes.
	Offset int
}

type form struct {
	kind string
	// Its group is what is checks.
	expr *regexp.Regexp
	// reports whether a match is no placeholder in an example; rest is the text behind it
	is func(match, rest string) bool
}

// forms: these cannot be anything else: by a checksum, or by the prefix and the length that their provider gives them.
// A form that other texts have too does not belong here, because a match is an error.
var forms = sync.OnceValue(func() []form {
	return []form{
		{"private key", regexp.MustCompile(`-----BEGIN ((?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?)-----`), isKey},
		{AgeKey, regexp.MustCompile(`\bAGE-SECRET-KEY-(?:PQ-)?1([AC-HJ-NP-Z02-9]{58,})\b`), isAny},
		{"GitHub token", regexp.MustCompile(`\bgh[opsur]_([0-9A-Za-z]{36})\b`), hasChecksum},
		{"GitHub token", regexp.MustCompile(`\bgithub_pat_([0-9A-Za-z]{22}_[0-9A-Za-z]{59})\b`), isRandom},
		{"GitLab token", regexp.MustCompile(`\bgl(?:pat|dt|rt|soat)-([\w-]{20})(?:[^\w.-]|$)`), isRandom},
		{"GitLab token", regexp.MustCompile(`\bgl(?:pat|dt|rt)-([\w-]{27,300}\.[0-9a-z]{9})\b`), isRandom},
		{"npm token", regexp.MustCompile(`\bnpm_([0-9A-Za-z]{36})\b`), hasChecksum},
		{"PyPI token", regexp.MustCompile(`\bpypi-AgEIcHlwaS5vcmc([\w-]{70,})`), isRandom},
		{"Docker Hub token", regexp.MustCompile(`\bdckr_(?:pat|oat)_([\w-]{27,32})(?:[^\w-]|$)`), isRandom},
		{"Slack token", regexp.MustCompile(`\bxox[bp](?:-[0-9]{10,13}){2,3}-([0-9A-Za-z]{24,34})\b`), isRandom},
		{"Slack webhook", regexp.MustCompile(
			`\bhooks\.slack(?:-gov)?\.com/services/T[0-9A-Z]{8,11}/B[0-9A-Z]{8,11}/([0-9A-Za-z]{24})\b`), isRandom},
		{"Vault token", regexp.MustCompile(`\bhv[sb]\.([\w-]{90,300})\b`), isRandom},
		{"AWS access key", regexp.MustCompile(
			`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b(?s:.{1,400}?)(?i:secret_?access_?key)[\s"':=]{1,8}([0-9A-Za-z/+]{40})(?:[^0-9A-Za-z/+=]|$)`,
		), isRandom},
	}
})

// Credentials returns the credentials in a text, by their position.
func Credentials(text string) (out []Credential) {
	for _, f := range forms() {
		for _, at := range f.expr.FindAllStringSubmatchIndex(text, -1) {
			if f.is(text[at[2]:at[3]], text[at[1]:]) {
				out = append(out, Credential{f.kind, at[0]})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Credential) int { return a.Offset - b.Offset })
	return out
}

// isAny is for forms that no placeholder has.
func isAny(string, string) bool { return true }

// isRandom reports whether a text is one that a machine drew. Placeholders such as xxxxxxxx or YOUR-TOKEN-HERE are not.
func isRandom(text, _ string) bool {
	distinct := map[rune]bool{}
	for _, r := range text {
		distinct[r] = true
	}
	return len(distinct) > 9 && strings.ContainsAny(text, "0123456789") &&
		strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && !strings.Contains(text, "EXAMPLE")
}

// checksumDigits are at the ends of tokens of GitHub and npm.
const checksumDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// hasChecksum reports whether the last six characters of a token are the CRC-32 of the others.
func hasChecksum(token, _ string) bool {
	split := len(token) - 6
	var want [6]byte
	sum := crc32.ChecksumIEEE([]byte(token[:split]))
	for i := len(want) - 1; i >= 0; i-- {
		want[i] = checksumDigits[sum%62]
		sum /= 62
	}
	return token[split:] == string(want[:])
}

// isKey reports whether a private key follows in base64, behind headers. Its lines may end as in JSON, be indented, be
// strings of a program, or be added by a diff.
func isKey(_, rest string) bool {
	body, end, _ := strings.Cut(rest, "-----")
	if !strings.HasPrefix(end, "END ") {
		return false
	}
	body = strings.NewReplacer(`\r`, "", `\n`, "\n", "\r", "").Replace(body)
	// A plus at either end of a line may belong to the key itself.
	return hasKey(body) || hasKey(strings.ReplaceAll(body, "\n+", "\n"))
}

// concatenated: a program joins strings so.
var concatenated = regexp.MustCompile(`["']\s*\+\s*$`)

// hasKey reports whether the lines are base64 of at least 32 bytes.
func hasKey(lines string) bool {
	var data strings.Builder
	for line := range strings.SplitSeq(lines, "\n") {
		line = strings.Trim(concatenated.ReplaceAllString(line, ""), " \t\"'\\,")
		if name, _, isHeader := strings.Cut(line, ": "); isHeader && !strings.Contains(name, " ") ||
			strings.HasPrefix(line, "=") { // the checksum of OpenPGP
			continue
		}
		data.WriteString(line)
	}
	raw, err := base64.StdEncoding.DecodeString(data.String())
	return err == nil && len(raw) >= 32
}
