package overlay_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/transpile/overlay"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

const head = "variant: fcos\nversion: 1.6.0\n"

// files makes a file system of pairs of name and contents.
func files(pairs ...string) fs.FS {
	out := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return out
}

func file(path, text string) string {
	return fmt.Sprintf("%sstorage:\n  files:\n    - path: %s\n      contents:\n        inline: %s\n", head, path, text)
}

// one builds a directory that must give one document.
func one(t *testing.T, fsys fs.FS) string {
	t.Helper()
	built, found := overlay.Build(fsys, "o", nil)
	if len(built.Documents) != 1 {
		t.Fatalf("%d documents, findings %v", len(built.Documents), found)
	}
	return string(built.Documents[0].Source)
}

func TestScalarsKeepTheirText(t *testing.T) {
	for _, text := range []string{"0644", "1.10", "2020-01-01", "12345678901234567890123", "yes", "1e3", "~x", "0x10"} {
		for name, patches := range map[string]string{
			"plain":      "",
			"json patch": "patches:\n  - target: {name: a}\n    patch: |-\n      - {op: add, path: /storage/files/0/mode, value: 0600}\n",
			"merge":      "patches:\n  - target: {name: a}\n    patch: |-\n      storage:\n        files:\n          - {path: /etc/a, mode: 0600}\n",
		} {
			got := one(t, files("o/kustomization.yaml", "resources: [a.bu]\n"+patches, "o/a.bu", file("/etc/a", text)))
			if !strings.Contains(got, "inline: "+text) && !strings.Contains(got, `inline: "`+text+`"`) {
				t.Errorf("%s: %s became\n%s", name, text, got)
			}
		}
	}
}

func TestMarkersAndWrapperLeaveNoTrace(t *testing.T) {
	got := one(t, files("o/a.bu", file("/etc/a", "x")))
	for _, trace := range []string{"bunsen", "metadata", "spec:"} {
		if strings.Contains(got, trace) {
			t.Errorf("%q is left in\n%s", trace, got)
		}
	}
}

func TestBuildsSideBySideGiveTheSame(t *testing.T) {
	repos := make([]fs.FS, 4)
	want := make([]string, len(repos))
	for i := range repos {
		repos[i] = files("o/kustomization.yaml", "resources: [../b/a.bu]\npatches: [{path: a.bu}]\n",
			"o/a.bu", fmt.Sprintf("storage:\n  files:\n    - path: /etc/%d\n", i), "b/a.bu", file("/etc/a", "x"))
		want[i] = one(t, repos[i])
	}
	var wg sync.WaitGroup
	got := make([][]documents.Document, len(repos))
	for i := range repos {
		wg.Go(func() {
			built, _ := overlay.Build(repos[i], "o", nil)
			got[i] = built.Documents
		})
	}
	wg.Wait()
	for i := range repos {
		if len(got[i]) != 1 || !bytes.Equal(got[i][0].Source, []byte(want[i])) {
			t.Errorf("repository %d gave %s, alone %s", i, got[i], want[i])
		}
	}
}

func TestABuildSaysAllThatItRead(t *testing.T) {
	repo := files("o/kustomization.yaml", "resources: [../b]\npatches: [{path: a.bu}]\n",
		"o/a.bu", "storage: {}\n", "b/a.bu", file("/etc/a", "x"), "b/note", "not read", "c/d.bu", "not read")
	built, found := overlay.Build(repo, "o", nil)
	if len(found) > 0 {
		t.Fatal(found)
	}
	var names []string
	for _, r := range built.Reads {
		names = append(names, r.Path)
		src, err := fs.ReadFile(repo, r.Path)
		if now := fmt.Sprintf("%x", sha256.Sum256(src)); err != nil || now != r.Blob {
			t.Errorf("%s: digest %s is not %s: %v", r.Path, r.Blob, now, err)
		}
	}
	if got, want := strings.Join(names, " "), "b/a.bu o/a.bu o/kustomization.yaml"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestAPatchCanDeleteAWholeDocument(t *testing.T) {
	got := one(t,
		files("o/kustomization.yaml", "resources: [a.bu, b.bu]\npatches: [{target: {name: a}, patch: '$patch: "+
			"delete'}]\n",
			"o/a.bu", file("/etc/a", "x"), "o/b.bu", file("/etc/b", "x")))
	if !strings.Contains(got, "/etc/b") {
		t.Errorf("left is\n%s", got)
	}
}

// kustomize would fetch each of these, even where a directory of that name exists.
func TestNothingThatLooksRemoteIsAPath(t *testing.T) {
	for _, ref := range []string{
		"github.com/a/b", "./github.com/a/b", "GitHub.com/a/b", "gitlab.com/a/b", "bitbucket.org/a/b", "a/b.git",
		"a/b.git/c",
		"dev.azure.com/a/_git/b", "git@host:a/b", "ssh://host/a", "https://host/a", "HTTP://host/a", "file:///a",
		"gh:a/b", "a?ref=main", "host//a", `host\a`,
	} {
		for _, field := range []string{"resources: [%q]", "components: [%q]", "patches: [{path: %q}]"} {
			built, found := overlay.Build(files("o/kustomization.yaml", fmt.Sprintf(field+"\n", ref),
				"o/"+ref+"/kustomization.yaml", "resources: []\n"), "o", nil)
			if built.Documents != nil || len(found) != 1 || found[0].Rule != "remote-base" || found[0].At.Line != 1 ||
				found[0].At.Column == 0 {
				t.Errorf(field+": %v", ref, found)
			}
		}
	}
}

// What no rule foresees costs one build, with a finding at its kustomization, and the next build is right.
func TestWhatKustomizeRefusesIsAFinding(t *testing.T) {
	for sentence, kustomization := range map[string]string{
		"a component among the resources": "resources: [c]\n",
		"an unknown sort order":           "resources: [a.bu]\nsortOptions: {order: upward}\n",
		"a list for a name prefix":        "resources: [a.bu]\nnamePrefix: [x]\n",
		"a cycle":                         "resources: [a.bu, .]\n",
		"a JSON patch of nothing":         "resources: [a.bu]\npatches: [{target: {name: a}, patch: '[{op: remove, path: /nothing}]'}]\n",
		"a JSON patch without operation":  "resources: [a.bu]\npatches: [{target: {name: a}, patch: '[1, {}]'}]\n",
		"a null resource":                 "resources: [null]\n",
		"a mapping for resources":         "resources: {a: b}\n",
		"a replacement of nothing":        "resources: [a.bu]\nreplacements: [{source: {name: nobody, fieldPath: x}, targets: [{select: {name: a}, fieldPaths: [x]}]}]\n",
		"replacements that are none":      "resources: [a.bu]\nreplacements: [1, {}, {source: 1, targets: [2]}]\n",
	} {
		repo := files("o/kustomization.yaml", kustomization, "o/a.bu", file("/etc/a", "x"),
			"o/c/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n")
		built, found := overlay.Build(repo, "o", nil)
		if built.Documents != nil || len(found) == 0 || found[0].At.File != "o/kustomization.yaml" {
			t.Errorf("%s: documents %v, findings %v", sentence, built.Documents, found)
		}
	}
	one(t, files("o/a.bu", file("/etc/a", "x")))
}
