package overlay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

func repository(pairs ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return out
}

const butaneHead = "variant: fcos\nversion: 1.6.0\n"

// sources of all documents, one after the other.
func sourcesOf(built Result) string {
	var out []string
	for _, d := range built.Documents {
		out = append(out, string(d.Source))
	}
	return strings.Join(out, "---\n")
}

// Whatever schema another part of the process has given kustomize, it is gone where we merge: one that redefines our
// kinds, one that cannot be read and makes kustomize panic, and the one that is built in.
func TestNoSchemaOfTheProcessReachesABuild(t *testing.T) {
	repo := repository(
		"o/kustomization.yaml", "resources: [a.bu]\npatches: [{path: p/a.bu}]\n",
		"o/a.bu", butaneHead+"storage:\n  files: [{path: /etc/a}]\nextra:\n  apiVersion: v1\n  kind: Pod\n"+
			"  spec: {containers: [{name: one}]}\n",
		"o/p/a.bu", "storage:\n  files: [{path: /etc/b}]\nextra:\n  apiVersion: v1\n  kind: Pod\n"+
			"  spec: {containers: [{name: two}]}\n",
	)
	want := butaneHead + "storage:\n  files: [{path: /etc/b}, {path: /etc/a}]\nextra:\n  apiVersion: v1\n" +
		"  kind: Pod\n  spec: {containers: [{name: two}]}\n"
	for name, poison := range map[string]func() error{
		"the one built in": func() error { openapi.ResetOpenAPI(); return nil },
		"one that cannot be read": func() error {
			openapi.ResetOpenAPI()
			return openapi.SetSchema(map[string]string{"path": "s.json"}, []byte(`{"definitions": {"x": [`), true)
		},
		"one of other keys for our kinds": func() error {
			openapi.ResetOpenAPI()
			return openapi.AddSchema(
				[]byte(`{"definitions": {"x": {"type": "object", "properties": {"spec": {"type": "object"}},
				"x-kubernetes-group-version-kind": [{"group": "butane.bunsen.dev", "version": "v1alpha1", "kind": "Butane"}]}}}`))
		},
	} {
		kustomizeLock.Lock()
		err := poison()
		kustomizeLock.Unlock()
		if err != nil {
			t.Fatal(name, err)
		}
		built, found := Build(repo, "o", nil)
		if got := sourcesOf(built); got != want {
			t.Errorf("under %s: %v\n%s\nwant\n%s", name, found, got, want)
		}
	}
}

// A comment such as this one is how kustomize lets a document say how it merges.
func TestADocumentCannotSayHowItMerges(t *testing.T) {
	comment := ` # {"items":{"type":"object"},"type":"array","x-kubernetes-patch-strategy":"replace"}`
	built, found := Build(repository(
		"o/kustomization.yaml", "resources: [a.bu]\npatches: [{path: p/a.bu}]\n",
		"o/a.bu", butaneHead+"storage:\n  files:"+comment+"\n    - path: /etc/a\n",
		"o/p/a.bu", "storage:\n  files:"+comment+"\n    - path: /etc/b\n",
	), "o", nil)
	if got := sourcesOf(built); !strings.Contains(got, "/etc/a") || strings.Contains(got, "#") {
		t.Errorf("%v\n%s", found, got)
	}
}

func TestAPanicFailsOneDocument(t *testing.T) {
	b := newBuilder(repository("o/a.bu", butaneHead, "o/b.bu", butaneHead), maxWork)
	docs, _ := b.gather("o")
	out := b.apply(docs, []change{{
		step:     &Step{Transform: (*Patch)(nil)},
		document: docs[1],
	}})
	if len(out) != 1 || len(b.Findings) != 1 || b.Findings[0].At.File != "o/b.bu" ||
		strings.Contains(b.Findings[0].Message, "nil pointer") {
		t.Errorf("%v, %v", out, b.Findings)
	}
	if built, found := Build(repository("p/c.bu", butaneHead), "p", nil); len(built.Documents) != 1 {
		t.Errorf("the next build: %v", found)
	}
}

// Each of these would take gigabytes or hours; it is refused at its line, and soon.
func TestABombIsRefused(t *testing.T) {
	doc := butaneHead + "storage:\n  files: [{path: /etc/a, contents: {inline: x}}]\n"
	kustomization := func(rest string) fstest.MapFS {
		return repository("o/a.bu", doc, "o/kustomization.yaml", "resources: [a.bu]\n"+rest)
	}
	for name, bomb := range map[string]struct {
		repo fstest.MapFS
		rule string
	}{
		"aliases within aliases":        {repository("o/a.bu", "a: &a [x, x]\nb: &b [*a, *a]\n"), "alias"},
		"nested without end":            {repository("o/a.bu", "a: "+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), "too-deep"},
		"a file that is too large":      {repository("o/a.bu", strings.Repeat("# comment\n", 1<<19)), "too-large"},
		"a million values":              {repository("o/a.bu", "a: ["+strings.Repeat("1,", 1_000_000)+"1]"), "too-large"},
		"a copy of a copy":              {kustomization("patches:\n  - target: {name: a}\n    patch: |-\n" + copies(60)), "too-large"},
		"a value within itself":         {kustomization("replacements:\n" + strings.Repeat("  - {source: {name: a, fieldPath: storage.files.0.contents.inline}, targets: [{select: {name: a}, fieldPaths: [storage.files.0.contents.inline], options: {delimiter: \"|\", index: 99}}]}\n", 40)), "too-large"},
		"a long value in many fields":   {many(20_000, "replacements:\n  - {sourceValue: "+strings.Repeat("x", 1<<20)+", targets: [{select: {name: a}, fieldPaths: [storage.files.*.path]}]}\n"), "too-large"},
		"a list too long to merge":      {many(20_000, "patches: [{target: {name: a}, patch: \"systemd: {}\"}]\n"), "too-large"},
		"too many operations":           {kustomization("patches:\n  - target: {name: a}\n    patch: |-\n" + strings.Repeat("      - {op: add, path: /x, value: 1}\n", 1000)), "too-large"},
		"directories without end":       {tower(200), "too-large"},
		"directories that double":       {doubling(30), "too-large"},
		"one document that doubles":     {doubling(14), "too-large"},
		"patches for all, many of them": {patches(700, 700), "too-large"},
	} {
		start := time.Now()
		built, found := buildWithin(bomb.repo, "o", nil, 8<<20)
		if len(built.Documents) > 0 || !slices.ContainsFunc(found, func(f origin.Finding) bool {
			return f.Rule == bomb.rule && f.At.File != ""
		}) {
			t.Errorf("%s: %d documents, %.300v", name, len(built.Documents), found)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}

	}
}

// TestASmallRepositoryMayNotAskForMuchWork: what a repository may ask for follows its size. The same patches are taken
// where the documents themselves are large.
func TestASmallRepositoryMayNotAskForMuchWork(t *testing.T) {
	built, found := Build(growing(400, 40, ""), "o", nil)
	if len(built.Documents) > 0 || !slices.ContainsFunc(found, func(f origin.Finding) bool {
		return f.Rule == "too-large" && f.At.File == "o/kustomization.yaml"
	}) {
		t.Errorf("small documents: %d documents, %.300v", len(built.Documents), found)
	}
	built, found = Build(growing(40, 40, strings.Repeat("# what this is for\n", 500)), "o", nil)
	if len(built.Documents) != 40 || origin.Fatal(found) {
		t.Errorf("large documents: %d documents, %.300v", len(built.Documents), found)
	}
}

// copies double a document, again and again.
func copies(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "      - {op: copy, from: /storage, path: /storage/m%d}\n", i)
	}
	return out.String()
}

// many is a document of many files.
func many(n int, rest string) fstest.MapFS {
	var files strings.Builder
	for i := range n {
		fmt.Fprintf(&files, "    - path: /etc/%d\n", i)
	}
	return repository("o/a.bu", butaneHead+"storage:\n  files:\n"+files.String(), "o/kustomization.yaml",
		"resources: [a.bu]\n"+rest)
}

// growing has n documents, and patches each of which adds a file to every one of them.
func growing(n, patches int, more string) fstest.MapFS {
	repo, resources := fstest.MapFS{}, ""
	for i := range n {
		repo[fmt.Sprintf("o/%d.bu", i)] = &fstest.MapFile{Data: []byte(butaneHead + more)}
		resources += fmt.Sprintf("- %d.bu\n", i)
	}
	text := "resources:\n" + resources + "patches:\n- target: {kind: Butane}\n  patch: |-\n" +
		"    - {op: add, path: /storage, value: {files: []}}\n"
	for i := range patches {
		text += fmt.Sprintf("- target: {kind: Butane}\n  patch: |-\n    - {op: add, path: /storage/files/-, value: "+
			"{path: /etc/%d}}\n", i)
	}
	repo["o/kustomization.yaml"] = &fstest.MapFile{Data: []byte(text)}
	return repo
}

// tower is a directory in a directory in a directory.
func tower(n int) fstest.MapFS {
	repo := repository("o/kustomization.yaml", "resources: [../d1]\n", fmt.Sprintf("d%d/a.bu", n), butaneHead)
	for i := range n - 1 {
		repo[fmt.Sprintf("d%d/kustomization.yaml", i+1)] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"resources: [../d%d]\n", i+2)}
	}
	return repo
}

// doubling is a base that comes in twice under two names, and so on.
func doubling(n int) fstest.MapFS {
	repo := repository("o/kustomization.yaml", "resources: [../l0, ../r0]\n", fmt.Sprintf("l%d/a.bu", n), butaneHead,
		fmt.Sprintf("r%d/b.bu", n), butaneHead)
	for i := range n {
		for _, side := range []string{"l", "r"} {
			repo[fmt.Sprintf("%s%d/kustomization.yaml", side, i)] = &fstest.MapFile{Data: fmt.Appendf(nil,
				"namePrefix: %s-\nresources: [../l%d, ../r%[2]d]\n", side, i+1)}
		}
	}
	return repo
}

// patches are many that mean many documents.
func patches(documents, n int) fstest.MapFS {
	repo := repository("o/kustomization.yaml", "resources: [../d]\npatches:\n"+
		strings.Repeat("  - {target: {kind: Butane}, patch: \"[{op: add, path: /x, value: 1}]\"}\n", n))
	for i := range documents {
		repo[fmt.Sprintf("d/%d.bu", i)] = &fstest.MapFile{Data: []byte(butaneHead + "a: " + strings.Repeat("x", 3000) +
			"\n")}
	}
	return repo
}

// What a bomb has to say is bounded too.
func TestFindingsAreBounded(t *testing.T) {
	_, found := Build(repository("o/a.bu", "a: 1\n"+strings.Repeat("b: 2\n", 50_000)), "o", nil)
	if len(found) > maxFindings+1 || found[len(found)-1].Rule != "more" {
		t.Errorf("%d findings, the last is %v", len(found), found[len(found)-1])
	}
}

// The known loss that the goldens speak of: kustomize itself builds such a repository, and the patch is gone.
func TestKustomizeLosesAPatchForASiblingInSilence(t *testing.T) {
	repo := repository(
		"o/kustomization.yaml", "resources: [../one, ../two]\n",
		"one/kustomization.yaml", "resources: [a.bu]\npatches: [{target: {name: b}, patch: \"systemd: {units: "+
			"[{name: lost.service}]}\"}]\n", "one/a.bu", butaneHead,
		"two/kustomization.yaml", "resources: [b.bu]\n", "two/b.bu", butaneHead,
	)
	theirs, err := buildWhole(repo, "o")
	if err != nil || len(theirs) != 2 || strings.Contains(strings.Join(theirs, ""), "lost.service") {
		t.Errorf("kustomize does not lose it: %v\n%s", err, theirs)
	}
	if _, found := Build(repo, "o", nil); !origin.Fatal(found) {
		t.Error("we lose it too")
	}
}
