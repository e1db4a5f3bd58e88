package review

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

var writer = sops.Writer{Random: rand.Reader, Now: time.Unix(1e9, 0)}

// difference returns the difference of a file whose contents have these sources.
func difference(from, to string, marked secretmask.Paths) string {
	config := func(source string) machineconfig.Config {
		f := ign.File{
			Node:          ign.Node{Path: "/etc/app.yaml"},
			FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
		}
		return machineconfig.Config{Ignition: ign.Config{Storage: ign.Storage{Files: []ign.File{f}}}}
	}
	change := disruption.Costed{Change: disruption.Change{Kind: disruption.KindFile, Name: "/etc/app.yaml"}}
	out, _, _ := newDiffer().difference(readItems([]disruption.Costed{change}, config(from), config(to),
		knownContent{Marked: marked})[0])
	return out
}

func TestADifferenceShowsReferencesAndNoValue(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, want string
		marked         secretmask.Paths
	}{
		"another key": {"${secret:app/a}", "${secret:app/b}", "-${secret:app/a}\n+${secret:app/b}\n", nil},
		"a clear password becomes a reference": {
			"", "user=a\npassword=${secret:app/a}\n", "-password=hunter2\n+password=${secret:app/a}\n",
			nil,
		},
		"a marked path": {"x=hunter2 ${secret:app/a}", "x=hunter2 ${secret:app/b}", "-${secret:app/a}\n+${secret:app/b}\n", secretmask.Paths{"/etc/app.yaml"}},
	} {
		from := machineconfig.TemplateURL(c.from)
		if c.from == "" {
			from = "data:,user%3Da%0Apassword%3Dhunter2%0A"
		}
		got := difference(from, machineconfig.TemplateURL(c.to), c.marked)
		if !strings.Contains(got, c.want) || c.from != "" && strings.Contains(got, "hunter2") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestADifferenceNamesTheChangedKeysOfAnEncryptedFile(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	second, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to := sops.Policy{Groups: [][]string{{id.Recipient().String()}}}
	url := func(body []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return machineconfig.SOPSURL("yaml", body)
	}
	const text = "a: hunter2\nlist:\n    - x: hunter2\nc_unencrypted: clear\n"
	first, err := writer.Encrypt("yaml", []byte(text), to)
	old := url(first, err)
	for name, c := range map[string]struct{ from, to, want string }{
		"added":   {"", old, "encrypted content added (yaml, for " + id.Recipient().String() + ")\n+key a\n+key list[0].x\n+c_unencrypted: \"clear\"\n"},
		"removed": {old, "", "encrypted content removed (yaml)\n"},
		"changed": {
			old, url(writer.Replace("yaml", first,
				[]byte("a: hunter2\nlist:\n    - x: hunter3\nd: 1\nc_unencrypted: seen\n"), id)),
			"encrypted content changed\n~key list[0].x\n+key d\n-c_unencrypted: \"clear\"\n+c_unencrypted: \"seen\"\n",
		},
		"saved again": {old, url(writer.Replace("yaml", first, []byte(text), id)), "re-encrypted, same keys and values\n"},
		"rotated": {
			old, url(writer.Rotate("yaml", first, sops.Policy{Groups: [][]string{{second.Recipient().String()}}}, id)),
			"re-encrypted with a new data key, so every key shows as changed\n-recipient " + id.Recipient().String() +
				"\n+recipient " + second.Recipient().String() + "\n~key a\n~key list[0].x\n",
		},
		"in the clear before": {"data:,password%3Dhunter2", old, "content changed from clear text to encrypted (yaml"},
		"in the clear after":  {old, "data:,user%3Dme", "content changed from encrypted to clear text\n@@ -0,0 +1 @@\n+user=me"},
	} {
		got := difference(c.from, c.to, nil)
		if !strings.Contains(got, c.want) || strings.Contains(got, "hunter") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// Whoever has no key can change all that the authentication code of SOPS does not cover. Each such change decrypts, and
// is a line of the review.
func TestWhatIsNotAuthenticatedIsInTheReview(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to := sops.Policy{Groups: [][]string{{id.Recipient().String()}}}
	seal := func(format, text string) string {
		t.Helper()
		out, err := writer.Encrypt(format, []byte(text), to)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	settings := seal("yaml", "allow_unencrypted: \"yes\"\na:\n    b: 1\nl_unencrypted:\n    - x\n    - z\n")
	env := seal("dotenv", "REQUIRE_AUTH=yes\nTOKEN=x\n")
	only, err := writer.Encrypt("dotenv", []byte("PATH=/bin\nX=1\n"), sops.Policy{
		Groups: to.Groups, Rules: document.Rules{EncryptedRegex: "^X$", MACOnlyEncrypted: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	var nested []string
	for line := range strings.SplitSeq(settings, "\n") {
		if rest, is := strings.CutPrefix(line, "    b: "); is {
			nested[len(nested)-1] = `"a:b": ` + rest
			continue
		}
		nested = append(nested, line)
	}
	for name, c := range map[string]struct{ format, from, to, want string }{
		"a renamed key": {
			"yaml", settings, strings.Replace(settings, "allow_u", "deny_u", 1),
			"+deny_unencrypted: \"yes\"\n-allow_unencrypted: \"yes\"\n",
		},
		"an empty text":       {"yaml", settings, "x: \"\"\n" + settings, "+x: \"\"\n"},
		"an empty list":       {"yaml", settings, "x: []\n" + settings, "+x: []\n"},
		"an empty mapping":    {"yaml", settings, "x: {}\n" + settings, "+x: {}\n"},
		"a null":              {"yaml", settings, "x: null\n" + settings, "+x: null\n"},
		"a comment":           {"yaml", settings, "# look\n" + settings, "+# look\n"},
		"another place":       {"yaml", settings, strings.Join(nested, "\n"), "+key \"a:b\"\n-key a.b\n"},
		"an empty variable":   {"dotenv", env, "X=\n" + env, "+X: \"\"\n"},
		"a clear value":       {"dotenv", string(only), strings.Replace(string(only), "/bin", "/tmp", 1), "-PATH: \"/bin\"\n+PATH: \"/tmp\"\n"},
		"a comment of dotenv": {"dotenv", env, "#x\n" + env, "+#x\n"},
	} {
		if _, err := sops.Decrypt(c.format, []byte(c.to), id); err != nil {
			t.Errorf("%s: the file does not decrypt: %v", name, err)
		}
		got := difference(machineconfig.SOPSURL(c.format, []byte(c.from)),
			machineconfig.SOPSURL(c.format, []byte(c.to)), nil)
		if !strings.Contains(got, c.want) || strings.Contains(got, "same keys and values") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
	marked := difference("data:,", machineconfig.SOPSURL("dotenv", only), secretmask.Paths{"/etc/app.yaml"})
	if strings.Contains(marked, "/bin") || !strings.Contains(marked, "+PATH: (hidden)\n") {
		t.Errorf("a marked path: got\n%s", marked)
	}
	if !strings.Contains(difference(machineconfig.SOPSURL("yaml", []byte("c: [")), machineconfig.SOPSURL("yaml",
		[]byte(settings)), nil), "+l_unencrypted[1]: \"z\"\n") {
		t.Error("the new file is not shown after a damaged one")
	}
}
