package overlay

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// layered is a repository in which every document is patched.
func layered(n int) fstest.MapFS {
	repo := repository("o/kustomization.yaml", "resources: [../base]\nnamePrefix: p-\npatches:\n")
	list := &repo["o/kustomization.yaml"].Data
	for i := range n {
		name := fmt.Sprintf("%02d-doc", i)
		repo["base/"+name+".bu"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%ssystemd:\n  units: [{name: a%d.service}]\n", butaneHead, i)}
		repo["o/"+name+".bu"] = &fstest.MapFile{Data: fmt.Appendf(nil, "systemd:\n  units: [{name: b%d.service}]\n", i)}
		*list = fmt.Appendf(*list, "  - path: %s.bu\n", name)
	}
	*list = fmt.Appendf(*list, "replacements:\n  - source: {name: 00-doc, fieldPath: systemd.units.0.name}\n    targets: [{select: {name: 01-doc}, fieldPaths: [systemd.units.1.name]}]\n")
	return repo
}

func TestOnlyWhatChangedIsBuiltAnew(t *testing.T) {
	repo := layered(10)
	var anew []string
	m := &Builder{before: func(name string) { anew = append(anew, name) }}
	change := func(file, text string) { repo[file] = &fstest.MapFile{Data: []byte(text)} }
	for _, step := range []struct {
		what   string
		change func()
		want   string
	}{
		{"the first time", func() {}, "p-00-doc p-01-doc p-02-doc p-03-doc p-04-doc p-05-doc p-06-doc p-07-doc p-08-doc p-09-doc"},
		{"nothing", func() {}, ""},
		{"a base", func() { change("base/03-doc.bu", butaneHead) }, "p-03-doc"},
		{"a patch", func() { change("o/05-doc.bu", "systemd: {units: [{name: x.service}]}\n") }, "p-05-doc"},
		{"the source of a replacement", func() { change("o/00-doc.bu", "systemd: {units: [{name: y.service}]}\n") }, "p-00-doc p-01-doc"},
		{"a base, back", func() { change("base/03-doc.bu", butaneHead+"systemd:\n  units: [{name: a3.service}]\n") }, ""},
	} {
		anew = nil
		step.change()
		got, found := m.Build(repo, "o")
		if len(got.Documents) != 10 {
			t.Fatal(step.what, found)
		}
		slices.Sort(anew)
		if now := strings.Join(anew, " "); now != step.want {
			t.Errorf("%s changed, and %q was built anew, want %q", step.what, now, step.want)
		}
		want, also := Build(repo, "o")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s changed (-cold +warm):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(also, found); diff != "" {
			t.Errorf("%s changed, findings (-cold +warm):\n%s", step.what, diff)
		}
	}
}

func TestAKeyIsOfEverythingInTheDocument(t *testing.T) {
	build := func(pairs ...string) Document {
		t.Helper()
		built, found := Build(repository(pairs...), "o")
		if len(built.Documents) != 1 {
			t.Fatal(found)
		}
		return built.Documents[0]
	}
	keys := map[string]string{}
	for what, d := range map[string]Document{
		"a document":                  build("o/a.bu", butaneHead),
		"another name":                build("o/b.bu", butaneHead),
		"another file":                build("o/kustomization.yaml", "resources: [../p/a.bu]\n", "p/a.bu", butaneHead),
		"another content":             build("o/a.bu", butaneHead+"storage: {}\n"),
		"other places":                build("o/a.bu", "\n"+butaneHead),
		"another kind":                build("o/a.ign", `{"variant": "fcos", "version": "1.6.0"}`),
		"the same content, patched":   build("o/kustomization.yaml", "resources: [a.bu]\npatches: [{target: {name: a}, patch: \"version: 1.6.0\"}]\n", "o/a.bu", butaneHead),
		"the same content, commented": build("o/a.bu", butaneHead+"# a comment\n"),
	} {
		if other, twice := keys[d.Key]; twice || d.Key == "" {
			t.Errorf("%s and %s have the key %q", what, other, d.Key)
		}
		keys[d.Key] = what
	}
	if a, b := build("o/a.bu", butaneHead), build("o/a.bu", butaneHead); a.Key != b.Key {
		t.Error("equal documents have other keys")
	}
}

func TestManyMayBuildAtOnce(t *testing.T) {
	m, repo := new(Builder), layered(20)
	want, _ := Build(repo, "o")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, _ := m.Build(repo, "o"); !cmp.Equal(want, got) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
	wg.Wait()
}

func TestAMemoryForgetsWhatNobodyAsksFor(t *testing.T) {
	var m memory[int]
	const big = maxRemembered / 4
	m.put("asked for", 1, big)
	for i := range 40 {
		m.put(fmt.Sprint(i), i, big)
		if v, ok := m.get("asked for"); v != 1 || !ok {
			t.Fatalf("after %d others it is forgotten", i+1)
		}
	}
	if _, ok := m.get("0"); ok {
		t.Error("nothing is forgotten")
	}
	if n := len(m.young) + len(m.old); n > 8 {
		t.Errorf("%d large values are kept", n)
	}
}
