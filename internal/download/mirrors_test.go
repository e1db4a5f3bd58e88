package download_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
)

const digest = "@sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"

func artifact(t *testing.T, name string) machineconfig.Artifact {
	t.Helper()
	a, err := machineconfig.ParseArtifact("oci://" + name)
	if err != nil && !strings.Contains(err.Error(), "no digest") {
		t.Fatal(err)
	}
	return a
}

// TestWhereAnArtifactIs has what the format of registries.conf means.
func TestWhereAnArtifactIs(t *testing.T) {
	const mirrored = `
[[registry]]
location = "registry.example.com"
[[registry.mirror]]
location = "first.example.org"
[[registry.mirror]]
location = "second.example.org:5000/copies"
`
	for sentence, c := range map[string]struct {
		files   []string
		name    string
		want    []string
		blocked []string
	}{
		"without files, it is at its source": {nil, "registry.example.com/x", []string{"registry.example.com/x"}, nil},
		"other registries have no mirrors":   {[]string{mirrored}, "other.example.com/x", []string{"other.example.com/x"}, nil},
		"mirrors come in order, and then the source": {
			[]string{mirrored},
			"registry.example.com/team/x",
			[]string{
				"first.example.org/team/x", "second.example.org:5000/copies/team/x",
				"registry.example.com/team/x",
			},
			nil,
		},
		"another port is another registry": {[]string{mirrored}, "registry.example.com.evil.org/x", []string{"registry.example.com.evil.org/x"}, nil},
		"a prefix ends at the end of a part": {
			[]string{"[[registry]]\nprefix = 'registry.example.com/team'\nlocation = 'a.example.org'"},
			"registry.example.com/teams/x",
			[]string{"registry.example.com/teams/x"},
			nil,
		},
		"a location replaces the prefix": {
			[]string{"[[registry]]\nprefix = 'registry.example.com/team'\nlocation = 'a.example.org/other'"},
			"registry.example.com/team/x",
			[]string{"a.example.org/other/x"},
			nil,
		},
		"a prefix may be a whole name": {
			[]string{"[[registry]]\nprefix = 'registry.example.com/team/x'\nlocation = 'a.example.org/y'"},
			"registry.example.com/team/x",
			[]string{"a.example.org/y"},
			nil,
		},
		"the longest prefix counts": {
			[]string{"[[registry]]\nlocation = 'registry.example.com'\nblocked = true\n[[registry]]\n" +
				"prefix = 'registry.example.com/team'\nlocation = 'a.example.org'\n[[registry]]\n" +
				"prefix = '*.example.com'\nblocked = true"},
			"registry.example.com/team/x",
			[]string{"a.example.org/x"},
			nil,
		},
		"a wildcard is for all hosts below a domain": {
			[]string{"[[registry]]\nprefix = '*.example.com'\n[[registry.mirror]]\nlocation = 'a.example.org'"},
			"b.c.example.com/x",
			[]string{"a.example.org/x", "b.c.example.com/x"},
			nil,
		},
		"a wildcard with a location": {
			[]string{"[[registry]]\nprefix = '*.example.com'\nlocation = 'a.example.org'"},
			"b.example.com/x",
			[]string{"a.example.org/x"},
			nil,
		},
		"a wildcard is not for the domain itself": {
			[]string{"[[registry]]\nprefix = '*.example.com'\nlocation = 'a.example.org'"},
			"example.com/x",
			[]string{"example.com/x"},
			nil,
		},
		"a wildcard is not for repositories": {
			[]string{"[[registry]]\nprefix = '*.example.com'\nlocation = 'a.example.org'"},
			"evil.org/b.example.com/x",
			[]string{"evil.org/b.example.com/x"},
			nil,
		},
		"a wildcard ends at the end of the host": {
			[]string{"[[registry]]\nprefix = '*.example.com'\nlocation = 'a.example.org'"},
			"b.example.com.evil.org/x",
			[]string{"b.example.com.evil.org/x"},
			nil,
		},
		"a blocked source has mirrors": {
			[]string{mirrored + "[[registry]]\nprefix = 'docker.io'\nblocked = true\n[[registry.mirror]]\n" +
				"location = 'a.example.org/hub'"},
			"docker.io/library/x",
			[]string{"a.example.org/hub/library/x"},
			[]string{"docker.io/library/x"},
		},
		"a mirror may be blocked too": {
			[]string{mirrored + "[[registry]]\nlocation = 'first.example.org'\nblocked = true"},
			"registry.example.com/x",
			[]string{"second.example.org:5000/copies/x", "registry.example.com/x"},
			[]string{"first.example.org/x"},
		},
		"a mirror for tags has no file with a digest": {
			[]string{"[[registry]]\nlocation = 'registry.example.com'\n[[registry.mirror]]\n" +
				"location = 'a.example.org'\npull-from-mirror = 'tag-only'\n[[registry.mirror]]\n" +
				"location = 'b.example.org'\npull-from-mirror = 'digest-only'\n[[registry.mirror]]\n" +
				"location = 'c.example.org'\npull-from-mirror = 'all'"},
			"registry.example.com/x" + digest,
			[]string{"b.example.org/x" + digest, "c.example.org/x" + digest, "registry.example.com/x" + digest},
			nil,
		},
		"a mirror for digests has no tag": {
			[]string{"[[registry]]\nlocation = 'registry.example.com'\nmirror-by-digest-only = true\n" +
				"[[registry.mirror]]\nlocation = 'a.example.org'"},
			"registry.example.com/x:v1",
			[]string{"registry.example.com/x:v1"},
			nil,
		},
		"a later file replaces a table": {
			[]string{mirrored, "[[registry]]\nprefix = 'registry.example.com'\nlocation = 'registry.example.com'\n" +
				"[[registry.mirror]]\nlocation = 'third.example.org'"},
			"registry.example.com/x",
			[]string{"third.example.org/x", "registry.example.com/x"},
			nil,
		},
		"a mirror that is the source counts once": {
			[]string{"[[registry]]\nlocation = 'registry.example.com'\n[[registry.mirror]]\n" +
				"location = 'registry.example.com'"},
			"registry.example.com/x",
			[]string{"registry.example.com/x"},
			nil,
		},
		"other settings have no effect": {
			[]string{"unqualified-search-registries = ['docker.io']\nshort-name-mode = 'enforcing'\n[aliases]\n" +
				"'x' = 'docker.io/x'\n[[registry]]\nlocation = 'registry.example.com'\ninsecure = true"},
			"registry.example.com/x",
			[]string{"registry.example.com/x"},
			nil,
		},
		"a mirror at an address": {
			[]string{"[[registry]]\nlocation = 'registry.example.com:5000'\n[[registry.mirror]]\n" +
				"location = '[fd00::1]:5000/mirror'"},
			"registry.example.com:5000/x",
			[]string{"[fd00::1]:5000/mirror/x", "registry.example.com:5000/x"},
			nil,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var files []download.MirrorFile
			for _, text := range c.files {
				files = append(files, download.MirrorFile{Name: "a.conf", Text: []byte(text)})
			}
			m := download.ParseMirrors(files...)
			if m.Err() != nil {
				t.Fatal(m.Err())
			}
			places, blocked := m.Of(artifact(t, c.name))
			var got []string
			for _, p := range places {
				got = append(got, strings.TrimPrefix(p.String(), "oci://"))
			}
			if !slices.Equal(got, c.want) || !slices.Equal(blocked, c.blocked) {
				t.Errorf("it is at %q, without %q; want %q, without %q", got, blocked, c.want, c.blocked)
			}
		})
	}
}

// TestFilesThatAreNotValid have no mirrors, and the other files count.
func TestFilesThatAreNotValid(t *testing.T) {
	const good = "[[registry]]\nlocation = 'registry.example.com'\n[[registry.mirror]]\nlocation = 'a.example.org'"
	for text, want := range map[string]string{
		"\n[[registry]":                                     "not valid TOML with tables [[registry]]: see line 2",
		"registry = 'a'":                                    "not valid TOML",
		"[[registry]]\nblocked = 'geheim'":                  "not valid TOML",
		"[[registry]]\nprefix = ''":                         "is not a registry",
		"[[registry]]\nprefix = 'a b'":                      "is not a registry",
		"[[registry]]\nprefix = '*'":                        "is not a registry",
		"[[registry]]\nprefix = '*.a/b'":                    "is not a registry",
		"[[registry]]\nprefix = 'a.*.b'":                    "is not a registry",
		"[[registry]]\nlocation = '../x'":                   "is not a registry",
		"[[registry]]\nlocation = 'u:p@a'":                  "is not a registry",
		"[[registry]]\nlocation = 'a?b=c'":                  "is not a registry",
		"[[registry]]\nlocation = 'a/../b'":                 "is not a registry",
		"[[registry]]\nlocation = 'a'\n[[registry.mirror]]": `the mirror ""`,
		"[[registry]]\nlocation = 'a'\n[[registry.mirror]]\nlocation = 'https://b'":                     "is not a registry",
		"[[registry]]\nlocation = 'a'\n[[registry.mirror]]\nlocation = 'b'\npull-from-mirror = 'never'": "pull-from-mirror of b",
	} {
		m := download.ParseMirrors(download.MirrorFile{Name: "bad.conf", Text: []byte(text)},
			download.MirrorFile{Name: "good.conf", Text: []byte(good)})
		if m.Err() == nil || !strings.Contains(m.Err().Error(), "reading bad.conf: ") ||
			!strings.Contains(m.Err().Error(), want) || strings.Contains(m.Err().Error(), "geheim") {
			t.Errorf("%q: %v, want %q", text, m.Err(), want)
		}
		if places, _ := m.Of(artifact(t, "registry.example.com/x")); len(places) != 2 {
			t.Errorf("%q: the other file does not count: %v", text, places)
		}
	}
}
