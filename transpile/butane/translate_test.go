package butane_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// translate takes a document whose origins are `at:1` for the whole, and what places says.
func translate(source string, places map[string]origin.Pos) (butane.Output, []origin.Finding) {
	at := map[string]origin.Pos{"$": {File: "at", Line: 1}}
	for k, v := range places {
		at[k] = v
	}
	return butane.Translate(butane.Input{Source: []byte(source), Origin: origin.Map{At: at}})
}

func TestFindingsStandWhereTheOriginSays(t *testing.T) {
	there := origin.Pos{File: "base/a.bu", Line: 77, Column: 3}
	for _, c := range []struct{ sentence, path, doc, rule string }{
		{"a relative path", "$.storage.files.0.path", "storage: {files: [{path: etc/a}]}", "butane"},
		{"an unknown key", "$.storage.file", "storage: {file: []}", "unknown-key"},
		{"a value of the wrong type", "$.storage.files.0.mode", "storage:\n  files:\n    - path: /etc/a\n      mode: rw", "yaml"},
		{"kernel arguments to remove", "$.kernel_arguments.should_not_exist", "kernel_arguments: {should_not_exist: [a]}", "kernel-arguments"},
		{"a local file without a directory", "$.storage.files.0.contents.local", "storage: {files: [{path: /etc/a, contents: {local: x}}]}", "missing-local"},
	} {
		_, found := translate("variant: fcos\nversion: 1.6.0\n"+c.doc+"\n", map[string]origin.Pos{c.path: there})
		if len(found) != 1 || found[0].At != there || found[0].Rule != c.rule || found[0].Warning {
			t.Errorf("%s: findings %+v, want one of %s at %s", c.sentence, found, c.rule, there)
		}
	}
}

func TestAReferenceIsFollowedInsideTheTreeOnly(t *testing.T) {
	root := t.TempDir()
	fsys := fstest.MapFS{"d/ok": {Data: []byte("x")}, "d/tree/a": {Data: []byte("x")}}
	refused := map[string]string{"d/link": "symbolic link", "d/tree/deep/link": "symbolic link", "mod": "submodule"}
	for ref, want := range map[string]string{
		"d/link":     "symbolic link",
		"d/link/x":   "symbolic link",
		"mod/a":      "submodule",
		"d/tree":     "symbolic link", // a tree that holds one
		"d/missing":  "no such file",
		"../outside": "no such file",
	} {
		doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/a\n      contents: {local: " + ref +
			"}\n"
		_, found := butane.Translate(butane.Input{Source: []byte(doc), Root: root, FS: fsys, Refused: refused})
		if len(found) == 0 || !strings.Contains(found[0].Message, want) {
			t.Errorf("%s: findings %v, want %q", ref, found, want)
		}
	}
}

// No dialect may be without origins: its method is called by name.
func TestEveryDialectTranslatesWithOrigins(t *testing.T) {
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"} {
		check(t, "variant: fcos\nversion: "+v+"\n")
	}
	for _, v := range []string{
		"flatcar\nversion: 1.0.0", "flatcar\nversion: 1.1.0", "r4e\nversion: 1.0.0",
		"r4e\nversion: 1.1.0", "fiot\nversion: 1.0.0",
	} {
		check(t, "variant: "+v+"\n")
	}
	for _, minor := range strings.Fields("8 9 10 11 12 13 14 15 16 17 18 19 20 21 22") {
		out := check(t, "variant: openshift\nversion: 4."+minor+".0\nmetadata:\n  name: x\n"+
			"  labels: {machineconfiguration.openshift.io/role: worker}\n")
		if out.Name != "x" || out.Role != "worker" {
			t.Errorf("openshift 4.%s: name %q, role %q", minor, out.Name, out.Role)
		}
	}
}

func check(t *testing.T, head string) butane.Output {
	t.Helper()
	there := origin.Pos{File: "f", Line: 9}
	out, found := translate(head+"storage:\n  files:\n    - path: /etc/a\n      mode: 0600\n",
		map[string]origin.Pos{"$.storage.files.0.mode": there})
	if len(found) > 0 {
		t.Errorf("%s: %v", head, found)
		return out
	}
	if v := out.Config.Ignition.Ignition.Version; v != "3.5.0" {
		t.Errorf("%s: Ignition %s", head, v)
	}
	if at, _ := out.Origin.Find("$.storage.files.0.mode"); at != there {
		t.Errorf("%s: the mode is said to be at %s", head, at)
	}
	return out
}

// tree is a directory on disk with a secret beside it, and links to the secret in it, which are left out of the file
// system as a tree leaves them out.
func tree(tb testing.TB, secret string) butane.Input {
	tb.Helper()
	base := tb.TempDir()
	for name, contents := range map[string]string{
		"outside/secret": secret, "root/d/ok": "fine", "root/d/t/a": "a",
		"root/d/raw": "\xff\xfe",
	} {
		file := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(contents), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	root := filepath.Join(base, "root")
	for link, target := range map[string]string{
		"d/link": "../../outside/secret", "d/out": "../../outside",
		"d/t/deep": "../../../outside/secret",
	} {
		if err := os.Symlink(target, filepath.Join(root, filepath.FromSlash(link))); err != nil {
			tb.Fatal(err)
		}
	}
	return butane.Input{
		Root: root, FS: fstest.MapFS{
			"d/ok": {Data: []byte("fine")}, "d/t/a": {Data: []byte("a")},
			"d/raw": {Data: []byte("\xff\xfe")},
		},
		Refused: map[string]string{"d/link": "symbolic link", "d/out": "symbolic link", "d/t/deep": "symbolic link"},
	}
}

func TestAReferenceIsCheckedHoweverItIsSpelled(t *testing.T) {
	const secret = "TOPSECRET0123456789"
	in := tree(t, secret)
	binary := base64.StdEncoding.EncodeToString([]byte("d/link"))
	for _, body := range []string{
		"storage: {files: [{path: /a, contents: {local: d/link}}]}",
		"storage: {files: [{path: /a, contents: {local: !!binary " + binary + "}}]}",
		"storage: {files: [{path: /a, contents: {!!binary bG9jYWw=: d/link}}]}",
		"storage: {files: [{path: /a, contents: {<<: {local: d/link}}}]}",
		"storage: {files: [{path: /a, contents: &c {local: d/link}}, {path: /b, contents: *c}]}",
		"storage: {files: [{path: &p d/link, contents: {local: *p}}]}",
		"storage: {files: [{path: /a, contents: {local: ./d/link}}]}",
		"storage: {files: [{path: /a, contents: {local: d//link}}]}",
		"storage: {files: [{path: /a, contents: {local: /d/link}}]}",
		"storage: {files: [{path: /a, contents: {local: d/t/../link}}]}",
		"storage: {files: [{path: /a, append: [{local: d/out/secret}]}]}",
		"storage: {trees: [{local: .}]}",
		"storage: {trees: [{local: d}]}",
		"storage: {trees: [{local: d/out}]}",
		"storage: {luks: [{name: a, device: /dev/vda, key_file: {local: d/link}}]}",
		"systemd: {units: [{name: a.service, contents_local: d/link}]}",
		"systemd: {units: [{name: a.service, dropins: [{name: a.conf, contents_local: d/out/secret}]}]}",
		"passwd: {users: [{name: core, ssh_authorized_keys_local: [d/ok, d/link]}]}",
		"ignition: {config: {merge: [{local: d/link}]}}",
	} {
		in.Source = []byte("variant: fcos\nversion: 1.6.0\n" + body + "\n")
		out, found := butane.Translate(in)
		if !origin.Fatal(found) || out.Config.HasIgnition {
			t.Errorf("%s: taken, with %v", body, found)
		}
	}
}

func TestWhatIsRefusedIsToldHowToDoIt(t *testing.T) {
	for _, c := range []struct{ doc, path, message string }{
		{"variant: fcos\nversion: 1.6\n", "$.version", "version 1.6 is not whole: write `version: 1.6.0`"},
		{"variant: openshift\nversion: 4.20\n", "$.version", "version 4.20 is not whole: write `version: 4.20.0`"},
		{"variant: rhcos\nversion: 0.1.0\n", "$.variant", "write `variant: openshift`"},
		{"variant: fcos\nversion: 1.8.0-experimental\n", "$.version", "version 1.8.0-experimental of fcos is experimental"},
		{"variant: openshift\nversion: 4.23.0-experimental\n", "$.version", "is experimental"},
		{"variant: fcc\nversion: 1.0.0\n", "$.variant", "variant fcc is not supported"},
		{"variant: fcos\nversion: 9.0.0\n", "$.version", "versions of fcos are 1.0.0, 1.1.0"},
		{"variant: fcos\nversion: 1.6.0\nkernel_arguments: {should_exist: [a, 'b=\"c d']}\n", "$.kernel_arguments.should_exist.1", "the closing double quote is missing"},
		{"variant: openshift\nversion: 4.19.0\nmetadata: {name: a, labels: {machineconfiguration.openshift.io/role: w}}\nopenshift: {kernel_arguments: ['b=\"']}\n", "$.openshift.kernel_arguments.0", "the closing double quote is missing"},
		{"variant: fcos\nversion: 1.6.0\nkernel_arguments: {should_not_exist: [a]}\n", "$.kernel_arguments.should_not_exist", "should_not_exist is not supported"},
		{"variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    -\n    - path: /a\n", "$.storage.files.0", "an item of this list is empty"},
		{"variant: fcos\nversion: 1.7.0\nstorage: {luks: [{name: a, device: /dev/vda, clevis: {custom: {pin: own, config: x}}}]}\n", "$.storage.luks.0.clevis.custom.pin", "nodes here use 3.5"},
	} {
		there := origin.Pos{File: "a.bu", Line: 42}
		_, found := translate(c.doc, map[string]origin.Pos{c.path: there})
		if len(found) != 1 || found[0].Warning || found[0].At != there || !strings.Contains(found[0].Message,
			c.message) {
			t.Errorf("%q: findings %+v, want %q at %s", c.doc, found, c.message, c.path)
		}
	}
}

func TestTheFirstDocumentsStillTranslate(t *testing.T) {
	out := check(t, "variant: fcos\nversion: 1.0.0\n")
	if out.Config.Ignition.Storage.Files[0].Path != "/etc/a" {
		t.Error("the legacy spelling of an .fcc file gives no file")
	}
}

func TestAUnitOrKeyFromAFileIsText(t *testing.T) {
	in := tree(t, "x")
	for _, body := range []string{
		"systemd: {units: [{name: a.service, contents_local: d/raw}]}",
		"passwd: {users: [{name: core, ssh_authorized_keys_local: [d/raw]}]}",
	} {
		in.Source = []byte("variant: fcos\nversion: 1.6.0\n" + body + "\n")
		if _, found := butane.Translate(in); len(found) == 0 || found[0].Rule != "not-text" {
			t.Errorf("%s: findings %v", body, found)
		}
	}
	in.Source = []byte("variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /a, contents: {local: d/raw}}]}\n")
	if _, found := butane.Translate(in); len(found) > 0 {
		t.Errorf("a file may hold any bytes: %v", found)
	}
}

func FuzzTranslate(f *testing.F) {
	const secret = "TOPSECRET0123456789"
	in := tree(f, secret)
	for _, body := range []string{
		"variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/a, contents: {inline: x}}]}\n",
		"variant: openshift\nversion: 4.19.0\nmetadata: {name: a}\n",
		"variant: fcos\nversion: 1.7.0\nboot_device: {mirror: {devices: [/dev/a, /dev/b]}}\n",
		"variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /a, contents: {local: d/link}}], trees: [{local: " +
			"d/t}]}\n",
		"variant: fcos\nversion: 1.6.0\nsystemd: {units: [{name: a.service, contents_local: d/out/secret}]}\n",
		"variant: fcos\nversion: 1.5.0\npasswd: {users: [{name: core, ssh_authorized_keys_local: [d/ok, " +
			"../outside/secret]}]}\n",
		"variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /a, contents: {local: !!binary ZC9saW5r}}]}\n",
		"variant: fcos\nversion: 1.7.0\nstorage: {trees: [{local: d/t, user: {id: 1}, dir_mode: 0700}]}\n",
		"variant: fcos\nversion: 1.6.0\nkernel_arguments: {should_exist: ['a=\"b']}\n",
		"variant: fcos\nversion: 1.6.0\nstorage: {filesystems: [{device: /dev/a, with_mount_unit: true}]}\n",
	} {
		f.Add(body)
	}
	archive, err := txtar.ParseFile("testdata/documents.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range archive.Files {
		f.Add("variant: fcos\nversion: 1.6.0\n" + string(body.Data))
		f.Add("variant: openshift\nversion: 4.19.0\nmetadata: {name: a, labels: " +
			"{machineconfiguration.openshift.io/role: w}}\n" + string(body.Data))
	}
	f.Fuzz(func(t *testing.T, doc string) {
		in := in
		in.Source, in.Origin = []byte(doc), origin.Map{At: butane.PlacesOf(doc)}
		out, found := butane.Translate(in)
		if origin.Fatal(found) && out.Config.HasIgnition {
			t.Errorf("a config in spite of %v", found)
		}
		for _, finding := range found {
			if strings.Contains(finding.Message, "panicked") {
				t.Error(finding)
			}
		}
		if origin.Fatal(found) {
			return
		}
		if out.Config.Ignition.Ignition.Version != "3.5.0" {
			t.Errorf("no finding and no config")
		}
		raw, err := out.Config.IgnitionJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secret) ||
			strings.Contains(string(raw), base64.StdEncoding.EncodeToString([]byte(secret))) {
			t.Errorf("the document reads a file outside its tree")
		}
	})
}
