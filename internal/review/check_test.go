package review_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

const encryptionDocument = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n" +
	"    - path: /etc/clear.conf\n      contents:\n        inline: |\n          password=hunter2\n" +
	"    - path: /etc/template.conf\n      template: true\n      contents:\n" +
	"        inline: password=${secret:app/password}\n" +
	"    - path: /etc/sealed.yaml\n      contents:\n        local: sealed.secret.yaml\n"

// key has the form of a private key of age.
var key = "AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)

func TestFilesThatShouldBeEncryptedAreFound(t *testing.T) {
	sealed, err := os.ReadFile("../sops/testdata/corpus/01-yaml.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		".sops.yaml":                      "creation_rules:\n- path_regex: \\.secret\\.yaml$\n  age: age1zlkjsyjz0nrvm3e0aqsxrhhzvp9fgt7crkvk2wgplxq0svwzcfnsqv6unn\n",
		"pools/worker/10-a.bu":            encryptionDocument,
		"pools/worker/sealed.secret.yaml": string(sealed),
		"pools/worker/clear.secret.yaml":  "password: hunter2\n",
		"other/.sops.yaml":                "creation_rules: [{path_regex: '('}]\n",
		"pools/worker/readme.md":          "text\n",
		"prod.agekey":                     "# created: today\n" + key + "\n",
		"ignored.agekey":                  key + "\n",
		"docs/example.md":                 "A key begins with AGE-SECRET-KEY-1...\n",
		".git/objects/x.secret.yaml":      "a: 1\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := source.Tree{Root: dir, FS: os.DirFS(dir)}
	res := transpile.Fragments(tree)
	var got []string
	for _, e := range review.CheckEncryption(tree.FS, res, review.SecretOwner{
		Ignored: func(f string) bool { return f == "ignored.agekey" },
	}, nil) {
		got = append(got, e.String())
	}
	want := []string{
		"other/.sops.yaml: error: creation rule 1: path_regex",
		"pools/worker/clear.secret.yaml: warning: a creation rule of .sops.yaml says that this file is encrypted, " +
			"and it is not: run `bunsen secret encrypt pools/worker/clear.secret.yaml`",
		"pools/worker/sealed.secret.yaml: warning: age1pattmatlnr5cd75xgeq4w4wln67rzm87z3pjemavuyhgag3ausj" +
			"sv4h3r0 can read the file, and its creation rule does not name it: run `bunsen secret rotate " +
			"pools/worker/sealed.secret.yaml --remove age1patt",
		"pools/worker/sealed.secret.yaml: warning: its creation rule names age1zlk",
		"prod.agekey:2:1: error: the private key of age is in the repository",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q\n%s", got, res.Report)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) || strings.Contains(got[i], "hunter2") {
			t.Errorf("got %s, want %s", got[i], w)
		}
	}
}

// A recipient is new where the base does not name it: in a rule with the same expression, or for the same file.
func TestEachNewRecipientIsNamed(t *testing.T) {
	const a = "age1pattmatlnr5cd75xgeq4w4wln67rzm87z3pjemavuyhgag3ausjsv4h3r0"
	const b = "age1zlkjsyjz0nrvm3e0aqsxrhhzvp9fgt7crkvk2wgplxq0svwzcfnsqv6unn"
	sealed, err := os.ReadFile("../sops/testdata/corpus/01-yaml.yaml") // for a
	if err != nil {
		t.Fatal(err)
	}
	rule := func(path, keys string) string { return fmt.Sprintf("- {path_regex: %q, age: %q}\n", path, keys) }
	for name, c := range map[string]struct {
		base, head map[string]string
		want       string
	}{
		"nothing": {
			map[string]string{".sops.yaml": rule("x", a), "f.yaml": string(sealed)},
			map[string]string{".sops.yaml": "# c\n" + rule("x", a), "f.yaml": string(sealed)},
			"[] []",
		},
		"a rule": {
			map[string]string{".sops.yaml": rule("x", a)},
			map[string]string{".sops.yaml": rule("x", a+","+b)},
			"[{" + b + " [.sops.yaml]}] [.sops.yaml: -path_regex \"x\"; for " + a +
				"; unencrypted_suffix: _unencrypted " +
				".sops.yaml: +path_regex \"x\"; for " + a + ", " + b + "; unencrypted_suffix: _unencrypted]",
		},
		"another rule of the same file": {
			map[string]string{".sops.yaml": rule("test", b) + rule("prod", a)},
			map[string]string{".sops.yaml": rule("test", b) + rule("prod", a+","+b)},
			"[{" + b + " [.sops.yaml]}]",
		},
		"a directory below": {
			map[string]string{".sops.yaml": rule("x", a)},
			map[string]string{".sops.yaml": rule("x", a), "pools/.sops.yaml": rule("x", b)},
			"[{" + b + " [pools/.sops.yaml]}]",
		},
		"a file that no rule expects": {
			map[string]string{".sops.yaml": rule("x", b)},
			map[string]string{".sops.yaml": rule("x", b), "f.yaml": string(sealed)},
			"[{" + a + " [f.yaml]}]",
		},
		"a file as its rule expects": {
			map[string]string{".sops.yaml": rule("f", a)},
			map[string]string{".sops.yaml": rule("f", a), "f.yaml": string(sealed)},
			"[] []",
		},
		"a key of another kind": {
			map[string]string{".sops.yaml": rule("x", a)},
			map[string]string{".sops.yaml": "- {path_regex: x, age: " + a + ", kms: 'arn:1'}\n"},
			"[{kms arn:1 [.sops.yaml]}]",
		},
		"a group with a key of another kind": {
			map[string]string{".sops.yaml": rule("x", a)},
			map[string]string{".sops.yaml": "- {path_regex: x, key_groups: [{age: [" + a + "], kms: [{arn: 1}]}]}\n"},
			"[{kms arn 1 [.sops.yaml]}]",
		},
		"another order": {
			map[string]string{".sops.yaml": rule("x", a) + rule("y", b)},
			map[string]string{".sops.yaml": rule("y", b) + rule("x", a)},
			"[] [.sops.yaml: -",
		},
		"invalid rules": {
			map[string]string{".sops.yaml": rule("x", a)},
			map[string]string{".sops.yaml": "- ["},
			"[] [.sops.yaml: -path_regex",
		},
	} {
		side := func(files map[string]string) review.Side {
			out := fstest.MapFS{}
			for name, text := range files {
				if strings.HasSuffix(name, ".sops.yaml") {
					text = "creation_rules:\n" + text
				}
				out[name] = &fstest.MapFile{Data: []byte(text)}
			}
			return review.Side{Encryption: review.ReadEncryption(out)}
		}
		found := review.Compare(side(c.base), side(c.head))
		if got := fmt.Sprint(found.NewRecipients, " ", found.CreationRules); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// Each credential in clear text is an error with its position, in whatever encoding the repository has it, unless the
// owner marks its path as secret, or its file as a public sample.
func TestCredentialsInClearTextAreErrors(t *testing.T) {
	const token = "ghp_" + "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ" + "0mLq17" // GitHub's published example
	file := func(contents string) string {
		return "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/app/token\n      contents:\n" +
			"        " + contents + "\n"
	}
	cluster := func(annotation string) string {
		return "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\n" +
			"  annotations: {" + annotation + "}\nspec: {}\n"
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("x\ntoken=" + token + "\n"))
	marks := cluster(`review.bunsen.dev/secret-paths: "/etc/app/, app.service"`)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a document": {
			map[string]string{"pools/worker/10-a.bu": file("inline: token=" + token)},
			"pools/worker/10-a.bu:7:23: error: a GitHub token in clear text: move the text to a file of its own, run " +
				"`bunsen " +
				"secret encrypt FILE`",
		},
		"a local file": {
			map[string]string{"pools/worker/10-a.bu": file("local: f"), "pools/worker/f": "a\n  x=" + token},
			"pools/worker/f:2:5: error: a GitHub token in clear text: run `bunsen secret encrypt pools/worker/f`",
		},
		"base64": {
			map[string]string{"pools/worker/10-a.bu": file("source: data:;base64," + encoded)},
			"pools/worker/10-a.bu:7:",
		},
		"base64 that a config appends": {
			map[string]string{
				"pools/worker/10-a.bu": file("inline: x") + "      append:\n        - inline: y\n" +
					"        - source: data:;base64," + encoded + "\n",
			},
			"pools/worker/10-a.bu:10:",
		},
		"a marked path to which a config appends": {
			map[string]string{
				"pools/worker/10-a.bu": file("inline: x") + "      append:\n        - inline: " + token + "\n",
				"cluster/a.yaml":       marks,
			}, "",
		},
		"a unit": {
			map[string]string{
				"pools/worker/10-a.bu": "variant: fcos\nversion: 1.6.0\nsystemd:\n  units:\n    - name: " +
					"app.service\n      contents: |\n        [Service]\n        Environment=X=" + token + "\n",
			},
			"pools/worker/10-a.bu:8:23: error",
		},
		"a file that no document names": {map[string]string{"docs/x.md": token}, "docs/x.md:1:1: error"},
		"a marked path": {
			map[string]string{"pools/worker/10-a.bu": file("inline: token=" + token), "cluster/a.yaml": marks}, "",
		},
		"a marked path with a local file": {
			map[string]string{
				"pools/worker/10-a.bu": file("local: f"), "pools/worker/f": "a\nx=" + token, "cluster/a.yaml": marks,
			}, "",
		},
		"a credential beside a marked path": {
			map[string]string{
				"pools/worker/10-a.bu": file("inline: x") + "# " + token + "\n# " + token,
				"cluster/a.yaml":       marks,
			},
			"pools/worker/10-a.bu:9:3: error",
		},
		"a public sample": {
			map[string]string{
				"pools/worker/10-a.bu": file("local: f"), "pools/worker/f": token, "docs/x.md": token,
				"cluster/a.yaml": cluster(`review.bunsen.dev/public-samples: "/docs/, /pools/worker/f"`),
			}, "",
		},
		"a pattern that matches nothing": {
			map[string]string{
				"pools/worker/10-a.bu": file("inline: x"),
				"cluster/a.yaml":       cluster("review.bunsen.dev/public-samples: docs/x"),
			},
			"cluster/a.yaml:1: error: review.bunsen.dev/public-samples: pattern",
		},
		"what git ignores": {map[string]string{"ignored.txt": token}, ""},
		"an encrypted file and a reference": {
			map[string]string{"pools/worker/10-a.bu": file("source: secret:app/token")}, "",
		},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tree := source.Tree{Root: dir, FS: os.DirFS(dir)}
		res := transpile.Fragments(tree)
		var got []string
		for _, e := range review.CheckEncryption(tree.FS, res, review.SecretOwner{
			Ignored: func(f string) bool { return f == "ignored.txt" },
			Marks:   map[string]secretmask.Paths{"worker": marksIn(t, res)},
		}, nil) {
			got = append(got, e.String())
		}
		if len(got) > 1 || (len(got) == 1) != (c.want != "") || len(got) == 1 && !strings.HasPrefix(got[0], c.want) ||
			strings.Contains(strings.Join(got, ""), token) {
			t.Errorf("%s: got %q, want %q\n%s", name, got, c.want, res.Report)
		}
	}
}

// TestWhatMayBeStored: results on disk have nothing that is secret by its kind, its mode or its form.
func TestWhatMayBeStored(t *testing.T) {
	token := base64.StdEncoding.EncodeToString([]byte("ghp_" + "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ" + "0mLq17"))
	file := `{"path":"/etc/x","contents":{"source":"data:,x"}`
	for sentence, c := range map[string]struct {
		body string
		may  bool
	}{
		"a plain file":                      {`"storage":{"files":[` + file + `}]}`, true},
		"a file for its owner alone":        {`"storage":{"files":[` + file + `,"mode":384}]}`, false},
		"a credential that is appended":     {`"storage":{"files":[` + file + `,"append":[{"source":"data:;base64,` + token + `"}]}]}`, false},
		"the hash of a password":            {`"passwd":{"users":[{"name":"a","passwordHash":"$6$x"}]}`, false},
		"the key of an encrypted volume":    {`"storage":{"luks":[{"name":"l","device":"/dev/sdb","keyFile":{"source":"data:,k"}}]}`, false},
		"an encrypted volume without a key": {`"storage":{"luks":[{"name":"l","device":"/dev/sdb"}]}`, true},
	} {
		f := transpile.Fragment{MachineConfig: &mcfgv1.MachineConfig{}}
		f.MachineConfig.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},` + c.body + `}`)
		if got := review.Storable(nil)(f); got != c.may {
			t.Errorf("%s: it may be stored: %t", sentence, got)
		}
	}
}

func marksIn(t *testing.T, res transpile.Result) (out secretmask.Paths) {
	t.Helper()
	for _, o := range res.Cluster {
		marks, err := secretmask.ParsePaths(o.Object.GetAnnotations()[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, marks...)
	}
	return out
}

// TestKeysThatSSHDWouldNotReadAreWarnedOf: the setting and the keys may be in two documents of a pool, and both alone
// are right.
func TestKeysThatSSHDWouldNotReadAreWarnedOf(t *testing.T) {
	const users = "variant: fcos\nversion: 1.6.0\npasswd:\n  users:\n    - name: core\n" +
		"      ssh_authorized_keys:\n" +
		"        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5S5bcGbEzWXQ6b5J1dcR2qZJf3eVh1c0yQ8m0uC1aV\n"
	const setting = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n" +
		"    - path: /etc/ssh/sshd_config.d/10-keys.conf\n      contents:\n        inline: |\n          SETTING\n"
	for sentence, c := range map[string]struct {
		setting, want string
	}{
		"elsewhere alone": {
			"AuthorizedKeysFile /etc/ssh/keys/%u", "pools/worker/20-ssh.bu:5:7: warning: pool worker: file " +
				"/etc/ssh/sshd_config.d/10-keys.conf: sets AuthorizedKeysFile of sshd to other files, so a node " +
				"whose sshd has no other setting does not accept the SSH keys of core, which are in " +
				".ssh/authorized_keys: add that file to the setting [unread-keys]",
		},
		"elsewhere, and where they are": {"AuthorizedKeysFile /etc/ssh/keys/%u .ssh/authorized_keys", ""},
		"of some users only":            {"Match User guest", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			var memory review.Renderings
			res, rendering, err := memory.Render(source.Tree{FS: fstest.MapFS{
				"pools/worker/10-users.bu": {Data: []byte(users)},
				"pools/worker/20-ssh.bu":   {Data: []byte(strings.Replace(setting, "SETTING", c.setting, 1))},
			}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range review.Check(res, rendering).Report {
				got = append(got, e.String())
			}
			if got := strings.Join(got, "\n"); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
