package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// document returns a document with mirrors.
func document(kind, file, items string) kinds.RegistriesDocument {
	list := map[string]string{
		kinds.DigestMirrors: "imageDigestMirrors",
		kinds.TagMirrors:    "imageTagMirrors",
	}[kind]
	text := "apiVersion: config.openshift.io/v1\nkind: " + kind + "\nmetadata: {name: a, annotations: " +
		"{bunsen.dev/container-runtime: 'crio,containerd'}}\nspec:\n  " + list + ": " + items + "\n"
	return kinds.RegistriesDocument{Kind: kind, ObjectInput: kinds.ObjectInput{
		Pool: "worker", Source: []byte(text),
		Origin: origin.Map{At: map[string]origin.Pos{"$": {File: file, Line: 1}}},
	}}
}

// files returns the texts of the files by path.
func files(t *testing.T, out kinds.ObjectOutput) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, f := range out.Config.Ignition.Storage.Files {
		text, err := machineconfig.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		all[f.Path] = string(text)
	}
	return all
}

type conf struct {
	Registry []struct {
		Prefix, Location string
		Blocked          bool
		Mirror           []struct {
			Location string
			Pull     string `toml:"pull-from-mirror"`
		}
	}
}

func TestMergedMirrorsAreInTheOrderOfEachList(t *testing.T) {
	for _, c := range []struct{ sentence, items, more, want string }{
		{"two lists that overlap", "[{source: quay.io, mirrors: [b.io, c.io]}]", "[{source: quay.io, mirrors: [a.io, b.io]}]", "a.io b.io c.io"},
		{"a continuation", "[{source: quay.io, mirrors: [a.io, b.io, c.io]}]", "[{source: quay.io, mirrors: [c.io, d.io, e.io]}]", "a.io b.io c.io d.io e.io"},
		{"lists without a relation are lexical", "[{source: quay.io, mirrors: [z.io]}]", "[{source: quay.io, mirrors: [y.io]}]", "y.io z.io"},
		{"equal lists", "[{source: quay.io, mirrors: [b.io, a.io]}]", "[{source: quay.io, mirrors: [b.io, a.io]}]", "b.io a.io"},
		{"the source between its mirrors", "[{source: quay.io, mirrors: [b.io, quay.io, a.io]}]", "[]", "b.io quay.io a.io"},
		{"the source at the end", "[{source: quay.io, mirrors: [b.io, quay.io]}]", "[]", "b.io"},
	} {
		out, findings := kinds.TranslateRegistries([]kinds.RegistriesDocument{document(kinds.DigestMirrors, "a.yaml",
			c.items), document(kinds.DigestMirrors, "b.yaml", c.more)})
		if origin.Fatal(findings) {
			t.Errorf("%s: %v", c.sentence, findings)
			continue
		}
		var read conf
		if _, err := toml.Decode(files(t, out)["/etc/containers/registries.conf.d/90-registry-quay.io.conf"],
			&read); err != nil || len(read.Registry) != 1 {
			t.Errorf("%s: %+v, %v", c.sentence, read, err)
			continue
		}
		var got []string
		for _, m := range read.Registry[0].Mirror {
			got = append(got, m.Location)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.sentence, got, c.want)
		}
	}
}

func TestContradictionsNameEveryLine(t *testing.T) {
	for _, c := range []struct {
		sentence string
		docs     []kinds.RegistriesDocument
		want     []string
	}{
		{"three lists in a circle", []kinds.RegistriesDocument{
			document(kinds.TagMirrors, "a.yaml", "[{source: quay.io, mirrors: [a.io, b.io]}]"),
			document(kinds.TagMirrors, "b.yaml", "[{source: quay.io, mirrors: [b.io, c.io]}]"),
			document(kinds.TagMirrors, "c.yaml", "[{source: quay.io, mirrors: [c.io, a.io]}]"),
		}, []string{"a.io before b.io at a.yaml:1", "b.io before c.io at b.yaml:1", "c.io before a.io at c.yaml:1"}},
		{"a list that has the source first", []kinds.RegistriesDocument{
			document(kinds.TagMirrors, "a.yaml", "[{source: quay.io, mirrors: [quay.io, a.io]}]"),
			document(kinds.TagMirrors, "b.yaml", "[{source: quay.io, mirrors: [a.io]}]"),
		}, []string{"quay.io before a.io at a.yaml:1", "a.io before quay.io at b.yaml:1"}},
		{"digests and tags, which containerd has in one list", []kinds.RegistriesDocument{
			document(kinds.DigestMirrors, "a.yaml", "[{source: quay.io, mirrors: [a.io, b.io]}]"),
			document(kinds.TagMirrors, "b.yaml", "[{source: quay.io, mirrors: [b.io, a.io]}]"),
		}, []string{"a.io before b.io at a.yaml:1", "b.io before a.io at b.yaml:1"}},
	} {
		out, findings := kinds.TranslateRegistries(c.docs)
		if !origin.Fatal(findings) || out.Config.HasIgnition {
			t.Errorf("%s: %+v", c.sentence, out)
		}
		for _, w := range c.want {
			if !strings.Contains(fmt.Sprint(findings), w) {
				t.Errorf("%s: %v lacks %q", c.sentence, findings, w)
			}
		}
	}
}

// A file's path never leaves its directory, and both files have exactly the names that the documents have.
func FuzzMirrors(f *testing.F) {
	f.Add("quay.io", "mirror.example.com/a", "b.example.com:5000", true)
	f.Add("*.example.com", "localhost:5000", "docker.io/library", false)
	f.Add("quay.io/../../x", "a\"]\n[host", "user:pass@host", true)
	f.Fuzz(func(t *testing.T, source, first, second string, never bool) {
		policy := "AllowContactingSource"
		if never {
			policy = "NeverContactSource"
		}
		items := fmt.Sprintf("[{source: %q, mirrors: [%q, %q], mirrorSourcePolicy: %s}]", source, first, second, policy)
		out, findings := kinds.TranslateRegistries([]kinds.RegistriesDocument{document(kinds.DigestMirrors, "a.yaml",
			items)})
		if origin.Fatal(findings) {
			return
		}
		for name, text := range files(t, out) {
			if strings.Contains(name, "..") || strings.ContainsAny(name, "\n *\"") {
				t.Errorf("the path is %q", name)
			}
			var read conf
			var hosts struct {
				Server string
				Host   map[string]any
			}
			if err := toml.Unmarshal([]byte(text), &hosts); err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
			switch {
			case strings.HasSuffix(name, "hosts.toml"):
				n := len(hosts.Host)
				if hosts.Server != "" {
					n++
				}
				if n < 1 || n > 2 || (hosts.Server != "") != never {
					t.Errorf("%d mirrors: %s", n, text)
				}
			case toml.Unmarshal([]byte(text), &read) != nil || len(read.Registry) != 1 || read.Registry[0].Prefix+
				read.Registry[0].Location != source || read.Registry[0].Blocked != never:
				t.Errorf("source %q: %s", source, text)
			default:
				for _, m := range read.Registry[0].Mirror {
					if m.Location != first && m.Location != second || m.Pull != "digest-only" {
						t.Errorf("mirror %q is none of %q, %q", m.Location, first, second)
					}
				}
			}
		}
	})
}
