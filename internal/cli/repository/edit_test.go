package repository_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

const hash = "sha512-abc"

func TestTheHashIsWrittenAndEverythingElseStays(t *testing.T) {
	const head = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"
	for says, c := range map[string]struct{ text, want string }{
		"below the address": {
			head + "    - path: /a # the tool\n      contents:\n        source: https://e/a   # from the vendor\n" +
				"      mode: 0755\n",
			head + "    - path: /a # the tool\n      contents:\n        source: https://e/a   # from the vendor\n" +
				"        verification:\n          hash: sha512-abc\n      mode: 0755\n",
		},
		"at the end of a file without a newline": {
			head + "  - path: /a\n    contents:\n      source: \"https://e/a\"",
			head + "  - path: /a\n    contents:\n      source: \"https://e/a\"\n      verification:\n" +
				"        hash: sha512-abc",
		},
		"with line ends of Windows": {
			strings.ReplaceAll(head, "\n", "\r\n") + "  - path: /a\r\n    contents:\r\n      source: https://e/a\r\n",
			strings.ReplaceAll(head, "\n", "\r\n") + "  - path: /a\r\n    contents:\r\n      source: https://e/a\r\n" +
				"      verification:\r\n        hash: sha512-abc\r\n",
		},
		"in place of an old one": {
			head + "  - path: /ä\n    contents: {source: 'https://e/a', verification: {hash: 'sha512-old'}} # kept\n",
			head + "  - path: /ä\n    contents: {source: 'https://e/a', verification: {hash: 'sha512-abc'}} # kept\n",
		},
		"in a flow mapping": {
			head + "  - {path: /ä, contents: {source: https://e/ä}, mode: 0644}\n",
			head + "  - {path: /ä, contents: {source: https://e/ä, verification: {hash: sha512-abc}}, mode: 0644}\n",
		},
		"in JSON": {
			`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"https://e/a"}}]}}`,
			`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"https://e/a", "verification": {"hash": "sha512-abc"}}}]}}`,
		},
		"in a MachineConfig, and in a second document": {
			"kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n      - path: /a\n        contents:\n" +
				"          source: https://e/a\n---\nstorage:\n  files:\n  - contents:\n      source: http://e/b\n",
			"kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n      - path: /a\n        contents:\n" +
				"          source: https://e/a\n          verification:\n            hash: sha512-abc\n---\n" +
				"storage:\n  files:\n  - contents:\n      source: http://e/b\n      verification:\n" +
				"        hash: sha512-abc\n",
		},
		"not for contents of the document": {head + "  - path: /a\n    contents: {inline: 'source: https://e/a'}\n", head + "  - path: /a\n    contents: {inline: 'source: https://e/a'}\n"},
	} {
		t.Run(says, func(t *testing.T) {
			sources, err := repository.FindRemote([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			hashes := make([]string, len(sources))
			for i := range hashes {
				hashes[i] = hash
			}
			got, err := repository.WriteHashes([]byte(c.text), sources, hashes)
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
			again, _ := repository.FindRemote(got)
			if twice, err := repository.WriteHashes(got, again, hashes); err != nil || !bytes.Equal(twice, got) {
				t.Errorf("a second time it writes, %v,\n%s", err, twice)
			}
		})
	}
}

func TestTheDigestIsWrittenAndEverythingElseStays(t *testing.T) {
	const digest = "@sha256:abababababababababababababababababababababababababababababababab"
	for says, c := range map[string]struct{ text, want string }{
		"in a MachineConfig": {
			"kind: MachineConfig\nspec:\n  osImageURL: quay.io/os:41   # follows the release\n  fips: true\n",
			"kind: MachineConfig\nspec:\n  osImageURL: quay.io/os:41" + digest + "   # follows the release\n" +
				"  fips: true\n",
		},
		"in place of an old one, in JSON": {
			`{"spec": {"osImageURL": "quay.io/os:41@sha256:0123", "baseOSExtensionsContainerImage": "quay.io/ext:41"}}`,
			`{"spec": {"osImageURL": "quay.io/os:41` + digest + `", "baseOSExtensionsContainerImage": "quay.io/ext:41` + digest + `"}}`,
		},
		"in a JSON patch": {
			"- op: replace\n  path: /spec/osImageURL\n  value: 'quay.io/os:41'\n",
			"- op: replace\n  path: /spec/osImageURL\n  value: 'quay.io/os:41" + digest + "'\n",
		},
		"not for a fact of a node, a commit of OSTree and other paths": {
			"spec: {osImageURL: 'o:${node.o}'}\n---\nspec: {osImageURL: 'ostree://a@0'}\n---\n- {path: a, value: b}\n",
			"spec: {osImageURL: 'o:${node.o}'}\n---\nspec: {osImageURL: 'ostree://a@0'}\n---\n- {path: a, value: b}\n",
		},
	} {
		t.Run(says, func(t *testing.T) {
			sources, err := repository.FindRemote([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range sources {
				if !s.IsImage || s.IsComplete() {
					t.Errorf("source %d is %+v", i, s)
				}
				name, _, _ := strings.Cut(s.Address, "@")
				sources[i].Resolved = name + digest
			}
			got, err := repository.WriteHashes([]byte(c.text), sources, make([]string, len(sources)))
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestWhatCannotBeEditedIsSaid(t *testing.T) {
	for says, c := range map[string]struct{ text, want string }{
		"an address with escapes": {"storage: {files: [{contents: {source: \"https://e/\\u0061\"}}]}\n", "line 1: the value has anchors, escapes or several lines"},
		"an anchor":               {"storage: {files: [{contents: {source: &a https://e/a}}]}\n", "line 1: the value has anchors"},
		"an empty verification":   {"storage:\n  files:\n  - contents:\n      source: https://e/a\n      verification: {}\n", "line 4: verification has no hash: add `hash: sha512-abc`"},
	} {
		t.Run(says, func(t *testing.T) {
			sources, err := repository.FindRemote([]byte(c.text))
			if err != nil || len(sources) != 1 {
				t.Fatal(sources, err)
			}
			if _, err := repository.WriteHashes([]byte(c.text), sources, []string{hash}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzWritingChangesNothingElse(f *testing.F) {
	f.Add("storage:\n  files:\n  - contents:\n      source: https://e/a # x\n")
	f.Add("storage: {files: [{contents: {source: 'https://e/a', verification: {hash: x}}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		sources, err := repository.FindRemote([]byte(text))
		if err != nil {
			return
		}
		hashes := make([]string, len(sources))
		for i := range hashes {
			hashes[i] = hash
		}
		got, err := repository.WriteHashes([]byte(text), sources, hashes)
		if err != nil {
			return
		}
		after, err := repository.FindRemote(got)
		if err != nil || len(after) != len(sources) {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
	})
}
