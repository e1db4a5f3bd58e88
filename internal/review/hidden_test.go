package review_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/policy"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

// printed are all forms of a comparison.
func printed(t *testing.T, c review.Comparison) []string {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		report.Text(c, report.Style{}), report.Text(c, report.Style{Colour: true}),
		report.Markdown(c, report.MarkdownOptions{}), string(raw),
	}
}

// TestNothingSecretIsPrinted: no printer shows a content that looks secret, on whichever side it is.
func TestNothingSecretIsPrinted(t *testing.T) {
	const doc = "variant: fcos\nversion: 1.5.0\n"
	file := func(path, content string) string {
		return doc + "storage:\n  files:\n    - path: " + path + "\n      mode: 0600\n      contents:\n" +
			"        inline: |\n          " + content + "\n"
	}
	key := "-----BEGIN OPENSSH " + "PRIVATE KEY----- hunter2"
	for sentence, docs := range map[string][2]string{
		"a file with secret in its name":           {file("/etc/app/client-secret", "hunter1"), file("/etc/app/client-secret", "hunter2")},
		"a key by its ending":                      {file("/etc/pki/tls/host.key", "hunter1"), file("/etc/pki/tls/host.key", "hunter2")},
		"a private key by what it holds":           {file("/etc/app/blob", "nothing"), file("/etc/app/blob", key)},
		"the registries' pull secret":              {file("/var/lib/kubelet/config.json", "hunter1"), file("/var/lib/kubelet/config.json", "hunter2")},
		"a secret that comes":                      {file("/etc/motd", "hello"), file("/etc/app/password", "hunter2")},
		"a secret that goes":                       {file("/etc/app/password", "hunter2"), file("/etc/motd", "hello")},
		"a secret that moves to an innocent path":  {file("/etc/app/password", "hunter2"), strings.Replace(file("/etc/app/word", "hunter2"), "0600", "0640", 1)},
		"a password hash of a user":                {doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter1\n", doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter2\n"},
		"a password hash of a group":               {doc + "passwd:\n  groups:\n    - name: ops\n      password_hash: hunter1\n", doc + "passwd:\n  groups:\n    - name: ops\n      password_hash: hunter2\n"},
		"a unit that carries a key in its drop-in": {file("/etc/motd", "hello"), doc + "systemd:\n  units:\n    - name: a.service\n      dropins:\n        - name: 10-a.conf\n          contents: |\n            # " + key + "\n"},
		"a secret that is appended":                {file("/etc/motd", "hello"), doc + "storage:\n  files:\n    - path: /etc/app.conf\n      append:\n        - inline: password=hunter2\n"},
		"an argument of the kernel":                {file("/etc/motd", "hello"), doc + "kernel_arguments:\n  should_exist: [luks.token=hunter2]\n"},
		"the key of an encrypted volume":           {file("/etc/motd", "hello"), doc + "storage:\n  luks:\n    - name: data\n      device: /dev/vdb\n      key_file:\n        inline: hunter2\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(docs[0])}, {
					Name: "head/pools/worker/10-a.bu",
					Data: []byte(docs[1]),
				},
			}}
			c := compared(t, a)
			if !c.Changed() || len(c.Pools[0].Items) == 0 {
				t.Fatal("the case changes nothing")
			}
			for _, text := range printed(t, c) {
				if strings.Contains(text, "hunter") || strings.Contains(text, "aHVudGVy") {
					t.Errorf("printed:\n%s", text)
				}
				if !strings.Contains(text, "hidden") {
					t.Errorf("does not say that something is hidden:\n%s", text)
				}
			}
		})
	}
}

// TestNoPlainTextOfASecretInAnyForm puts one secret into configs drawn at random, in every place and encoding.
func TestNoPlainTextOfASecretInAnyForm(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		secret := fmt.Sprintf("s3cr3t-%d", r.Int63())
		c := review.Compare(
			review.Side{
				Name:  "base",
				Pools: map[string]review.Pool{"worker": {Rendered: "a", Config: hiding(r, secret)}},
			},
			review.Side{
				Name:  "head",
				Pools: map[string]review.Pool{"worker": {Rendered: "b", Config: hiding(r, secret)}},
			},
			policy.Default())
		for _, text := range printed(t, c) {
			if strings.Contains(text, secret) {
				t.Fatalf("seed %d prints %s:\n%s", seed, secret, text)
			}
		}
	}
}

// hiding is a config with the secret in some of the places where a secret may be.
func hiding(r *rand.Rand, secret string) machineconfig.Config {
	c := machineconfig.Config{Ignition: ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}}
	texts := []string{
		"password=" + secret, `{"token": "` + secret + `"}`, "-----BEGIN RSA " + "PRIVATE KEY-----\n" + secret,
		"client-key-data: " + secret,
		"machine x\nAuthorization: Bearer " + secret, "https://user:" + secret + "@host/",
	}
	for i, path := range []string{"/etc/a", "/etc/b.key", "/root/.docker/config.json", "/etc/c"} {
		if r.Intn(2) == 0 {
			continue
		}
		f := ign.File{Node: ign.Node{Path: path}}
		text := strings.Repeat("line\n", r.Intn(5)) + texts[r.Intn(len(texts))] + strings.Repeat("\nline", r.Intn(5))
		source := dataurl.EncodeBytes([]byte(text))
		if f.Contents.Source = util.StrToPtr(source); r.Intn(4) == 0 {
			f.Append, f.Contents.Source = []ign.Resource{{Source: &source}}, nil
		}
		f.Mode = util.IntToPtr(0o600 + i%2*0o44)
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, f)
	}
	if r.Intn(2) == 0 {
		unit := ign.Unit{Name: "a.service", Contents: util.StrToPtr("[Service]\nEnvironment=APP_TOKEN=" + secret +
			"\n")}
		if r.Intn(2) == 0 {
			unit.Dropins = []ign.Dropin{{Name: "10.conf", Contents: unit.Contents}}
		}
		c.Ignition.Systemd.Units = append(c.Ignition.Systemd.Units, unit)
	}
	if r.Intn(2) == 0 {
		c.Ignition.Passwd.Users = []ign.PasswdUser{{
			Name: "core", PasswordHash: util.StrToPtr("$6$" + secret),
			SSHAuthorizedKeys: []ign.SSHAuthorizedKey{ign.SSHAuthorizedKey(secret)},
		}}
	}
	if r.Intn(2) == 0 {
		c.KernelArguments = []string{"quiet", "app.password=" + secret}
	}
	if r.Intn(2) == 0 {
		source := dataurl.EncodeBytes([]byte(secret))
		c.Ignition.Storage.Luks = []ign.Luks{{
			Name: "data", Device: util.StrToPtr("/dev/vdb"),
			KeyFile: ign.Resource{Source: &source},
			Clevis:  ign.Clevis{Custom: ign.ClevisCustom{Config: util.StrToPtr(`{"k":"` + secret + `"}`)}},
		}}
	}
	return c
}

// TestOnlyTheSecretsOfAFileAreHidden checks that all other lines of a file with a secret are shown, that a reader sees
// which hidden value changed, and which rule hid it.
func TestOnlyTheSecretsOfAFileAreHidden(t *testing.T) {
	doc := func(workers, password string) []byte {
		return []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/app.conf\n" +
			"      contents:\n        inline: |\n          db_user = app\n          db_password = " + password +
			"\n          workers = " + workers + "\n")
	}
	for sentence, c := range map[string]struct {
		from, to    []byte
		has, hasNot []string
	}{
		"another value": {doc("4", "hunter1"), doc("8", "hunter1"), []string{"-workers = 4", "+workers = 8", " db_password = (hidden, sha256 ", "hidden by rule: key-value"}, []string{"-db_password", "hunter"}},
		"the secret":    {doc("4", "hunter1"), doc("4", "hunter2"), []string{"-db_password = (hidden, sha256 ", "+db_password = (hidden, sha256 ", " db_user = app"}, []string{"-workers", "hunter"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := compared(t, &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: c.from}, {Name: "head/pools/worker/10-a.bu", Data: c.to},
			}})
			for _, text := range printed(t, got) {
				for _, want := range c.has {
					if !strings.Contains(text, want) {
						t.Errorf("lacks %q:\n%s", want, text)
					}
				}
				for _, no := range c.hasNot {
					if strings.Contains(text, no) {
						t.Errorf("has %q:\n%s", no, text)
					}
				}
			}
			if rules := got.Pools[0].Items[0].Hidden; len(rules) != 1 || rules[0] != "key-value" {
				t.Errorf("hidden by %v", rules)
			}
		})
	}
}
