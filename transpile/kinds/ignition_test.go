package kinds_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// places are the lines of a document's keys and items, as an overlay tells them.
func places(t testing.TB, source string) origin.Map {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(source), &doc); err != nil {
		t.Fatal(err)
	}
	m := origin.Map{At: map[string]origin.Pos{"$": {File: "a.ign", Line: 1}}}
	var walk func(n *yaml.Node, at string)
	walk = func(n *yaml.Node, at string) {
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(n.Content); i += 2 {
				k := n.Content[i]
				m.At[at+"."+k.Value] = origin.Pos{File: "a.ign", Line: k.Line, Column: k.Column}
				walk(n.Content[i+1], at+"."+k.Value)
			}
		case yaml.SequenceNode:
			for i, c := range n.Content {
				child := at + "." + strconv.Itoa(i)
				m.At[child] = origin.Pos{File: "a.ign", Line: c.Line, Column: c.Column}
				walk(c, child)
			}
		}
	}
	walk(doc.Content[0], "$")
	return m
}

func said(findings []origin.Finding) string {
	var lines []string
	for _, f := range findings {
		severity := "error"
		if f.Warning {
			severity = "warning"
		}
		lines = append(lines, fmt.Sprintf("%d: %s: %s [%s]", f.At.Line, severity, f.Message, f.Rule))
	}
	return strings.Join(lines, "\n")
}

func TestEveryVersionIsReadAs35(t *testing.T) {
	for _, version := range strings.Fields("2.0.0 2.1.0 2.2.0 2.3.0 2.4.0 3.0.0 3.1.0 3.2.0 3.3.0 3.4.0 3.5.0 3.6.0") {
		source := `{"ignition": {"version": "` + version + `"},
 "storage": {"files": [
  {"filesystem": "root", "path": "/etc/a", "mode": 420,
   "contents": {"source": "data:,a"}}]}}`
		if version[0] == '3' {
			source = strings.Replace(source, `"filesystem": "root", `, "", 1)
		}
		out, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(source), Origin: places(t, source)})
		if len(findings) > 0 {
			t.Errorf("%s: %s", version, said(findings))
			continue
		}
		files := out.Config.Ignition.Storage.Files
		if len(files) != 1 || files[0].Path != "/etc/a" || *files[0].Mode != 0o644 ||
			*files[0].Contents.Source != "data:,a" || out.Config.Ignition.Ignition.Version != "3.5.0" {
			t.Errorf("%s became %+v", version, out.Config.Ignition)
		}
		if at, _ := out.Origin.Find("$.storage.files.0.contents.source"); at.Line != 4 {
			t.Errorf("%s: the contents are said to be in line %d", version, at.Line)
		}
	}
}

func TestWhatIsWrongIsSaidAtItsLine(t *testing.T) {
	head := "{\"ignition\": {\"version\": \"%s\"},\n"
	for _, c := range []struct{ sentence, version, rest, want string }{
		{"an unknown key", "3.4.0", `"storage": {"files": [{"path": "/a",` + "\n" + `"mdoe": 1}]}}`, `3: error: Ignition knows no key "mdoe" here`},
		{"a key of a later version", "3.2.0", `"kernelArguments": {"shouldExist": ["a"]}}`, `2: error: Ignition knows no key "kernelArguments" here`},
		{"a path that occurs twice", "3.5.0", `"storage": {"files": [{"path": "/a"},` + "\n" + `{"path": "/a"}]}}`, "3: error: this entry occurs twice"},
		{"a relative path", "3.0.0", `"storage": {"files": [` + "\n" + `{"path": "a"}]}}`, "3: error: \"a\" is not an absolute path: write /a"},
		{"a value of the wrong type", "3.1.0", `"storage": {"files": [{"path": "/a",` + "\n" + `"mode": "0644"}]}}`, "3: error: a string stands here where a whole number"},
		{"a value of the wrong type in version 2", "2.2.0", `"storage": {"files": [{"filesystem": "root", "path": "/a",` + "\n" + `"mode": "0644"}]}}`, "3: error: a string stands here where a whole number"},
		{"a list where an object is due", "3.5.0", `"storage":` + "\n" + ` []}`, "2: error: an array stands here where an object belongs"},
		{"a version that is to come", "3.7.0", `"storage": {}}`, `1: error: Ignition version "3.7.0" is not supported; Ignition versions here are`},
		{"a version of another time", "1.0.0", `"storage": {}}`, `1: error: Ignition version "1.0.0" is not supported`},
		{"a version that is none", "latest", `"storage": {}}`, `1: error: Ignition version "latest" is not supported`},
		{"arguments to take away", "3.3.0", `"kernelArguments": {` + "\n" + `"shouldNotExist": ["a"]}}`, "3: error: shouldNotExist is not supported"},
		{"an unknown key of version 2", "2.2.0", `"storage": {"files": [{"filesystem": "root", "path": "/a",` + "\n" + `"mdoe": 1}]}}`, `3: error: Ignition 2.2.0 knows no key "mdoe" here`},
		{"a key of version 3 in version 2", "2.2.0", `"kernelArguments": {}}`, `2: error: Ignition 2.2.0 knows no key "kernelArguments" here`},
		{"a relative path of version 2", "2.2.0", `"storage": {"files": [` + "\n" + `{"filesystem": "root", "path": "a"}]}}`, "3: error: \"a\" is not an absolute path: write /a"},
		{"networkd", "2.2.0", `"networkd":` + "\n" + `{"units": [{"name": "a.network"}]}}`, "2: error: version 3 has no networkd"},
		{"users to create", "2.2.0", `"passwd": {"users": [{"name": "a",` + "\n" + `"create": {"shell": "/bin/sh"}}]}}`, "3: error: version 3 has no `create`"},
		{"a file of another file system", "2.2.0", `"storage": {"files": [{"path": "/a",` + "\n" + `"filesystem": "data"}]}}`, "3: error: version 3 has no names for file systems"},
		{"a file that is a link too", "2.2.0", `"storage": {"files": [{"filesystem": "root", "path": "/a"}],` + "\n" + `"links": [{"filesystem": "root", "path": "/a", "target": "/b"}]}}`, "3: error: the path is also among the files"},
		{"a drop-in that occurs twice", "2.2.0", `"systemd": {"units": [{"name": "a.service", "dropins": [{"name": "a.conf"},` + "\n" + `{"name": "a.conf"}]}]}}`, "3: error: the unit has a drop-in of that name already"},
		{"appending twice", "2.2.0", `"storage": {"files": [{"filesystem": "root", "path": "/a", "append": true},` + "\n" + `{"filesystem": "root", "path": "/a", "append": true}]}}`, "3: error: several entries for one path"},
	} {
		source := fmt.Sprintf(head, c.version) + c.rest
		_, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(source), Origin: places(t, source)})
		if !strings.Contains(said(findings), c.want) || !origin.Fatal(findings) {
			t.Errorf("%s: %s\nwant %s", c.sentence, said(findings), c.want)
		}
	}
	for sentence, source := range map[string]string{
		"no object":             `[]`,
		"an empty object":       `{}`,
		"no version":            `{"ignition": {}}`,
		"a version as a number": `{"ignition": {"version": 3}}`,
		"half a document":       `{"ignition": `,
		"a hole in the ground":  strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"a deep one":            `{"ignition": {"version": "3.5.0"}, "x": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}",
	} {
		_, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(source)})
		if !origin.Fatal(findings) {
			t.Errorf("%s is taken", sentence)
		}
	}
}

const twice = `{"ignition": {"version": "2.2.0"},
"storage": {"files": [
{"filesystem": "root", "path": "/etc/a", "contents": {"source": "data:,first"}},
{"filesystem": "root", "path": "/etc/b", "contents": {"source": "data:,b"}},
{"filesystem": "root", "path": "/etc/a",
 "contents": {"source": "data:,last"}},
{"filesystem": "root", "path": "/etc/c", "append": true,
 "contents": {"source": "data:,more"}}]},
"systemd": {"units": [
{"name": "a.service", "contents": "first",
 "dropins": [{"name": "1.conf", "contents": "[Unit]"}]},
{"name": "a.service",
 "enable": true,
 "contents": "[Install]\nWantedBy=a.target"}]},
"passwd": {"users": [
{"name": "core", "sshAuthorizedKeys": ["old", "both"]},
{"name": "core", "sshAuthorizedKeys": ["both",
 "new"]}]}}`

func TestOfVersion2TheLastCountsAndEverythingKeepsItsLine(t *testing.T) {
	source := strings.Replace(twice, `"contents": "first",`, "", 1)
	out, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(source), Origin: places(t, source)})
	want := "3: warning: it occurs again further down, and version 2 uses the last; " +
		"remove this one [duplicate-item]\n" +
		"10: warning: it occurs again further down, and version 2 uses the last; remove this one [duplicate-item]"
	if said(findings) != want {
		t.Errorf("got\n%s", said(findings))
	}
	c := out.Config.Ignition
	var got []string
	for i, f := range c.Storage.Files {
		at, _ := out.Origin.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
		text := fmt.Sprint(f.Path, " ", at.Line, " ", f.Contents.Source != nil && *f.Contents.Source == "data:,last")
		for j := range f.Append {
			at, _ := out.Origin.Find(fmt.Sprintf("$.storage.files.%d.append.%d.source", i, j))
			text += fmt.Sprint(" + ", *f.Append[j].Source, " ", at.Line)
		}
		got = append(got, text)
	}
	for i, u := range c.Systemd.Units {
		enabled, _ := out.Origin.Find(fmt.Sprintf("$.systemd.units.%d.enabled", i))
		dropin, _ := out.Origin.Find(fmt.Sprintf("$.systemd.units.%d.dropins.0.contents", i))
		got = append(got, fmt.Sprint(u.Name, " ", *u.Enabled, " ", enabled.Line, " ", u.Dropins[0].Name, " ",
			dropin.Line))
	}
	for i, u := range c.Passwd.Users {
		for j, key := range u.SSHAuthorizedKeys {
			at, _ := out.Origin.Find(fmt.Sprintf("$.passwd.users.%d.sshAuthorizedKeys.%d", i, j))
			got = append(got, fmt.Sprint(u.Name, " ", key, " ", at.Line))
		}
	}
	if diff := cmp.Diff([]string{
		"/etc/a 6 true", "/etc/b 4 false", "/etc/c 7 false + data:,more 8",
		"a.service true 13 1.conf 11",
		"core both 17", "core new 18", "core old 16",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReferencesOfVersion2KeepTheirOwnSources(t *testing.T) {
	source := `{"ignition": {"version": "2.2.0", "config": {"append": [{"source": "data:,1"}, {"source": "data:,2"}]},
	 "security": {"tls": {"certificateAuthorities": [{"source": "data:,3"}, {"source": "data:,4"}]}}}}`
	r, problems := kinds.ReadIgnition([]byte(source))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for _, m := range r.Config.Ignition.Config.Merge {
		got = append(got, *m.Source)
	}
	for _, m := range r.Config.Ignition.Security.TLS.CertificateAuthorities {
		got = append(got, *m.Source)
	}
	if diff := cmp.Diff([]string{"data:,1", "data:,2", "data:,3", "data:,4"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestKernelArgumentsStandWhereARunningNodeTakesThem(t *testing.T) {
	source := `{"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["a",` + "\n" + `"b=c"]}}`
	out, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(source), Origin: places(t, source)})
	at, _ := out.Origin.Find("spec.kernelArguments.1")
	if len(findings) > 0 || !cmp.Equal(out.Config.KernelArguments, []string{"a", "b=c"}) || at.Line != 2 ||
		out.Config.Ignition.KernelArguments.ShouldExist != nil {
		t.Errorf("got %+v at %v, %s", out.Config, at, said(findings))
	}
}

func TestUpgradeSpecTouchesVersion2Only(t *testing.T) {
	spec := func(raw string) mcfgv1.MachineConfigSpec {
		return mcfgv1.MachineConfigSpec{FIPS: true, Config: runtime.RawExtension{Raw: []byte(raw)}}
	}
	for sentence, c := range map[string]struct{ raw, want string }{
		"version 2 is translated":      {`{"ignition":{"version":"2.2.0"},"systemd":{"units":[{"name":"a.service","mask":true}]}}`, `{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"mask":true,"name":"a.service"}]}}`},
		"version 3 stays":              {`{"ignition":{"version":"3.0.0"}, "x": 1}`, `{"ignition":{"version":"3.0.0"}, "x": 1}`},
		"none stays none":              {``, ``},
		"what only looks like 2 stays": {`{"ignition":{"version":"3.5.0"},"x":"2.2.0"}`, `{"ignition":{"version":"3.5.0"},"x":"2.2.0"}`},
		"what is no JSON stays":        {`{"2.2.0`, `{"2.2.0`},
	} {
		got, err := kinds.UpgradeSpec(spec(c.raw))
		if err != nil || string(got.Config.Raw) != c.want || !got.FIPS {
			t.Errorf("%s: %s, %v", sentence, got.Config.Raw, err)
		}
	}
	_, err := kinds.UpgradeSpec(
		spec(`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"a"}]},"networkd":{"units":[{"name":"a.network"}]}}`))
	if err == nil || !strings.Contains(err.Error(), "storage.files.0.path: \"a\" is not an absolute path") {
		t.Errorf("got %v", err)
	}
}

func FuzzIgnition(f *testing.F) {
	f.Add(twice)
	f.Add(`{"ignition": {"version": "3.6.0"}, "storage": {"luks": [{"name": "a", "clevis": {"custom": {"pin": "x"}}}]}}`)
	f.Add(`{"ignition": {"version": "2.0.0"}, "storage": {"filesystems": [{"name": "a", "path": "/"}], "files": [{"filesystem": "a", "path": "/x"}]}}`)
	f.Add("ignition: {version: 2.4.0}\nstorage: {filesystems: [{name: d, mount: {device: /dev/a, format: ext4}}]}\n")
	f.Fuzz(func(t *testing.T, source string) {
		r, problems := kinds.ReadIgnition([]byte(source))
		var bad error
		for _, p := range problems {
			if strings.Contains(p.Message, "panicked") {
				t.Error(p.Message)
			}
			if !p.Warning {
				bad = errors.Join(bad, errors.New(p.Message))
			}
		}
		if bad != nil != (r.Config.Ignition.Version == "") {
			t.Fatalf("version %q and %v", r.Config.Ignition.Version, bad)
		}
		if bad == nil {
			c := machineconfig.Config{Ignition: r.Config, HasIgnition: true}
			if again := machineconfig.Validate(c); len(again) > 0 {
				t.Errorf("it is taken and not valid: %v", again)
			}
		}
	})
}
