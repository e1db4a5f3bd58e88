package butane_test

import (
	"strings"
	"testing"
	"testing/fstest"

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
		doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/a\n      contents: {local: " + ref + "}\n"
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
	for _, v := range []string{"flatcar\nversion: 1.0.0", "flatcar\nversion: 1.1.0", "r4e\nversion: 1.0.0", "r4e\nversion: 1.1.0", "fiot\nversion: 1.0.0"} {
		check(t, "variant: "+v+"\n")
	}
	for _, minor := range strings.Fields("8 9 10 11 12 13 14 15 16 17 18 19 20 21 22") {
		out := check(t, "variant: openshift\nversion: 4."+minor+".0\nmetadata:\n  name: x\n  labels: {machineconfiguration.openshift.io/role: worker}\n")
		if out.Name != "x" || out.Role != "worker" {
			t.Errorf("openshift 4.%s: name %q, role %q", minor, out.Name, out.Role)
		}
	}
}

func check(t *testing.T, head string) butane.Output {
	t.Helper()
	there := origin.Pos{File: "f", Line: 9}
	out, found := translate(head+"storage:\n  files:\n    - path: /etc/a\n      mode: 0600\n", map[string]origin.Pos{"$.storage.files.0.mode": there})
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

func FuzzTranslate(f *testing.F) {
	f.Add("variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/a, contents: {inline: x}}]}\n")
	f.Add("variant: openshift\nversion: 4.19.0\nmetadata: {name: a}\n")
	f.Add("variant: fcos\nversion: 1.7.0\nboot_device: {mirror: {devices: [/dev/a, /dev/b]}}\n")
	f.Fuzz(func(t *testing.T, doc string) {
		out, found := translate(doc, nil)
		if origin.Fatal(found) && out.Config.HasIgnition {
			t.Errorf("a config in spite of %v", found)
		}
		if !origin.Fatal(found) && out.Config.Ignition.Ignition.Version != "3.5.0" {
			t.Errorf("no finding and no config")
		}
	})
}
