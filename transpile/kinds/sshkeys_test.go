package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	sshkeysHead = "apiVersion: bunsen.dev/v1alpha1\nkind: SSHKeys\nmetadata: {name: admins}\nspec:\n"
	key         = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGmzc5CzPp8LQGKOCtZgwQwPLBPQq3ZVtQ8yPHtOr2bR"
	ecdsa       = "ecdsa-sha2-nistp256 " +
		"AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
)

var sshkeysThere = origin.Pos{File: "pools/worker/keys.yaml", Line: 77, Column: 3}

func sshkeysTranslate(source, path string) (kinds.ObjectOutput, []origin.Finding) {
	return kinds.TranslateSSHKeys(kinds.ObjectInput{
		Source: []byte(source),
		Origin: origin.Map{At: map[string]origin.Pos{"$": {File: sshkeysThere.File, Line: 1}, path: sshkeysThere}},
	})
}

func TestKeysBecomeUsers(t *testing.T) {
	for _, c := range []struct {
		sentence, source, path string
		want                   []string
	}{
		{"core has the keys where nobody is named", sshkeysHead + "  keys: [" + key + ", " + ecdsa + " me@home]\n", "$.spec.keys.1", []string{"core", "1 " + key, "77 " + ecdsa + " me@home"}},
		{"a user is named", sshkeysHead + "  user: ann\n  keys: ['" + key + "']\n", "$.spec.user", []string{"ann", "1 " + key}},
		{"several are named", sshkeysHead + "  users:\n    - {name: ann, keys: ['" + key + "']}\n    - {name: bob, keys: ['" + ecdsa + "']}\n", "$.spec.users.1.keys.0", []string{"ann", "1 " + key, "bob", "77 " + ecdsa}},
		{"options that sshd knows stay", sshkeysHead + "  keys: ['restrict,from=\"10.0.0.0/8,a b\",command=\"x \\\"y\\\"\" " + key + " ann']\n", "$.spec.keys.0", []string{"core", `77 restrict,from="10.0.0.0/8,a b",command="x \"y\"" ` + key + " ann"}},
	} {
		out, findings := sshkeysTranslate(c.source, c.path)
		var got []string
		for i, u := range out.Config.Ignition.Passwd.Users {
			got = append(got, u.Name)
			for j, k := range u.SSHAuthorizedKeys {
				at, _ := out.Origin.Find(fmt.Sprintf("$.passwd.users.%d.sshAuthorizedKeys.%d", i, j))
				got = append(got, fmt.Sprint(at.Line, " ", k))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(findings) > 0 {
			t.Errorf("%s: %v (-want +got):\n%s", c.sentence, findings, diff)
		}
		for _, bad := range append(machineconfig.Validate(out.Config), machineconfig.Check(out.Config)...) {
			t.Errorf("%s: %v", c.sentence, bad)
		}
	}
}

func TestWhatSSHDWouldPassOverIsAnErrorAtItsLine(t *testing.T) {
	private := "|\n      -----BEGIN OPENSSH PRIVATE KEY-----\n      c2VjcmV0\n      -----END OPENSSH PRIVATE KEY-----\n"
	for _, c := range []struct{ sentence, path, rest, want string }{
		{"a private key", "$.spec.keys.0", "  keys:\n    - " + private, "this is a private key, and every reader of the repository has it now"},
		{"half a key", "$.spec.keys.1", "  keys: ['" + key + "', '" + key[:40] + "']\n", "not a public key"},
		{"no base64", "$.spec.keys.0", "  keys: ['ssh-ed25519 !!!!']\n", "not a public key"},
		{"a type that the data is not of", "$.spec.keys.0", "  keys: ['ssh-rsa " + key[len("ssh-ed25519 "):] + "']\n", "not a public key"},
		{"a comment", "$.spec.keys.0", "  keys: ['# ann']\n", "there is no key in this item"},
		{"nothing", "$.spec.keys.0", "  keys: ['']\n", "there is no key in this item"},
		{"two keys in one item", "$.spec.keys.0", "  keys: [\"" + key + "\\n" + key + "\"]\n", "one key in one line"},
		{"a key that occurs twice", "$.spec.keys.1", "  keys: ['" + key + "', '" + key + "']\n", "the key occurs twice"},
		{"an option that is none", "$.spec.keys.0", "  keys: ['no-agents " + key + "']\n", "sshd has no option with this name"},
		{"an option without its value", "$.spec.keys.0", "  keys: ['from=10.0.0.1 " + key + "']\n", "the option from needs a value in double quotes"},
		{"an option with a value too many", "$.spec.keys.0", "  keys: ['restrict=\"x\" " + key + "']\n", "the option restrict has no value"},
		{"a user without keys", "$.spec.users.0.name", "  users: [{name: ann, keys: []}]\n", `the user "ann" has no keys`},
		{"keys without a user", "$.spec.users.0", "  users: [{keys: ['" + key + "']}]\n", "the user has no name"},
		{"a user who occurs twice", "$.spec.users.0.name", "  keys: ['" + key + "']\n  users: [{name: core, keys: ['" + ecdsa + "']}]\n", `the user "core" occurs twice`},
		{"nobody at all", "$.spec", "  {}\n", "the document names no keys"},
		{"an unknown field", "$.spec.key", "  key: x\n", `unknown field "spec.key": a SSHKeys has none`},
		{"a value of another type", "$.spec.keys", "  keys: x\n", "spec.keys is a text here"},
	} {
		out, findings := sshkeysTranslate(sshkeysHead+c.rest, c.path)
		if len(findings) != 1 || findings[0].At != sshkeysThere || !strings.Contains(findings[0].Message, c.want) ||
			out.Config.HasIgnition {
			t.Errorf("%s: %+v\nwant %q at %s", c.sentence, findings, c.want, sshkeysThere)
		}
		for _, f := range findings {
			if strings.Contains(f.Message, "c2VjcmV0") || strings.Contains(f.Message, key[20:]) {
				t.Errorf("%s: the message shows the key", c.sentence)
			}
		}
	}
}

func FuzzSSHKeys(f *testing.F) {
	f.Add(sshkeysHead + "  keys: ['" + key + "']\n")
	f.Add(sshkeysHead + "  users:\n    - {name: ann, keys: ['restrict,from=\"a,b\" " + ecdsa + " x']}\n")
	f.Fuzz(func(t *testing.T, source string) {
		out, findings := sshkeysTranslate(source, "$")
		if origin.Fatal(findings) == out.Config.HasIgnition {
			t.Errorf("%+v and %v", out, findings)
		}
		for _, u := range out.Config.Ignition.Passwd.Users {
			for _, k := range u.SSHAuthorizedKeys {
				if strings.ContainsAny(string(k), "\n\r\x00") || strings.Contains(string(k), "PRIVATE") {
					t.Errorf("a key %q", k)
				}
			}
		}
	})
}
