package review_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review/report"
)

// mutations are the ways in which a commit changes one file. Each returns false where it cannot.
var mutations = map[string]func(*txtar.File) bool{
	"a comment at the end": func(f *txtar.File) bool {
		f.Data = append(bytes.Clone(f.Data), "# seen?\n"...)
		return true
	},
	"no last line": func(f *txtar.File) bool {
		lines := bytes.SplitAfter(f.Data, []byte("\n"))
		if len(lines) < 3 {
			return false
		}
		f.Data = bytes.Join(lines[:len(lines)-2], nil)
		return true
	},
	"nothing in it": func(f *txtar.File) bool { f.Data = nil; return true },
	"another digit": func(f *txtar.File) bool {
		i := bytes.LastIndexAny(f.Data, "0123456789")
		if i < 0 {
			return false
		}
		f.Data = bytes.Clone(f.Data)
		f.Data[i] = '0' + (f.Data[i]-'0'+1)%10
		return true
	},
	"another name":     func(f *txtar.File) bool { f.Name += ".moved"; return true },
	"removed":          func(f *txtar.File) bool { f.Name = "base/removed"; return true },
	"a file beside it": func(f *txtar.File) bool { f.Name = filepath.Dir(f.Name) + "/beside"; return true },
}

// TestNoChangeIsUnseen changes each file of each repository of testdata in every way. The review of the change is never
// that of no change, whatever the file is for.
func TestNoChangeIsUnseen(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no repositories: %v", err)
	}
	played, refused := 0, 0
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := commit(t, a.Files, "base/")
		want := seen(t, base, base)
		for i, f := range base {
			for how, mutate := range mutations {
				head := slices.Clone(base)
				if !mutate(&head[i]) {
					continue
				}
				if how == "a file beside it" {
					head = append(head, f)
				}
				played++
				switch text := seen(t, base, head); {
				case text == "":
					refused++
				case text == want:
					t.Errorf("%s: %s, %s: the review does not name it:\n%s", name, f.Name, how, text)
				}
			}
		}
	}
	if played < 200 || refused > played/2 {
		t.Errorf("%d changes, of which %d cannot be rendered: that says too little", played, refused)
	}
}

func commit(t *testing.T, files []txtar.File, side string) (out []txtar.File) {
	t.Helper()
	for _, f := range files {
		if strings.HasPrefix(f.Name, side) {
			out = append(out, f)
		}
	}
	out = append(out, txtar.File{Name: side + "README.md", Data: []byte("Node 1\n")},
		txtar.File{Name: side + ".sops.yaml", Data: []byte("creation_rules:\n  - path_regex: a1\n")})
	return out
}

// seen is the review's text, or "" where the change cannot be rendered, which everybody sees.
func seen(t *testing.T, base, head []txtar.File) string {
	t.Helper()
	a := txtar.Archive{Files: slices.Clone(base)}
	for _, f := range head {
		a.Files = append(a.Files, txtar.File{Name: "head/" + strings.TrimPrefix(f.Name, "base/"), Data: f.Data})
	}
	c, err := compare(t, &a)
	if err != nil {
		return ""
	}
	return report.Text(c, report.Style{})
}
