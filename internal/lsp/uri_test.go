package lsp

import (
	"slices"
	"testing"
)

func TestTheURIsOfPaths(t *testing.T) {
	for _, c := range []struct {
		uri     string
		windows bool
		path    string
		back    string
	}{
		{"file:///a/b%20c", false, "/a/b c", "file:///a/b%20c"},
		{"file:///a/../../b", false, "/b", "file:///b"},
		{"file://localhost/a", false, "/a", "file:///a"},
		{"file://example.com/a", false, "", ""},
		{"untitled:a", false, "", ""},
		{"file:///a%00", false, "", ""},
		{"file:///c%3A/x", false, "/c:/x", "file:///c:/x"},
		{"file:///c%3A/x/y.bu", true, `C:\x\y.bu`, "file:///C:/x/y.bu"},
		{"file:///C:/", true, `C:\`, "file:///C:/"},
		{"file:///c:/x%5C..%5C..%5Cy", true, `C:\y`, "file:///C:/y"},
		{"file:///c:/../d", true, `C:\d`, "file:///C:/d"},
		{"file:///c:x", true, "", ""},
		{"file:///x", true, "", ""},
		{"file:///c:/x:stream", true, "", ""},
		{"file://server/share/x", true, "", ""},
	} {
		got, ok := pathIn(c.uri, c.windows)
		if got != c.path || ok != (c.path != "") {
			t.Errorf("%s is the path %q (%v), want %q", c.uri, got, ok, c.path)
		}
		if !ok {
			continue
		}
		if back := uriIn(got, c.windows); back != c.back {
			t.Errorf("%s is the URI %s, want %s", got, back, c.back)
		}
	}
}

func TestWhereTheFolderWithPoolsOfAFileCanBe(t *testing.T) {
	for file, want := range map[string][]string{
		"pools/worker/a.bu":           {".", "pools/worker", "pools", "."},
		"a/pools/worker/pools/b/c.bu": {"a", "a/pools/worker/pools/b", "a/pools/worker/pools", "a/pools/worker", "a/pools", "a", "."},
		"a/pools/pools/a.bu":          {"a", "a/pools/pools", "a/pools", "a", "."},
		"a/base/b.bu":                 {"a/base", "a", "."},
		"pools":                       {"."},
	} {
		if got := foldersAbove(file); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

func TestFilesOfProgramsChangeNoRepository(t *testing.T) {
	for uri, want := range map[string]bool{
		"file:///a/.git/index": false, "file:///a/node_modules/b/c": false, "file:///a/.gitignore": true,
		"file:///a/b.bu": true, "other:x": true,
	} {
		var p watchedParams
		p.Changes = append(p.Changes, struct {
			URI string `json:"uri"`
		}{uri})
		if got := p.matter(); got != want {
			t.Errorf("%s matters: %v", uri, got)
		}
	}
	if !(watchedParams{}).matter() {
		t.Error("changes that nobody names do not matter")
	}
}
