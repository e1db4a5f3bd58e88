package adopt_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

// outside is the content of a file outside of the imported directory.
const outside = "outside-of-the-directory"

// FuzzImportTree imports any directory. A file whose content begins with `-> ` is a symbolic link. Nothing panics, no
// Butane file is lost, no path leaves the repository, nothing from outside of the directory gets into it, and the
// second import gives the same.
func FuzzImportTree(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds:", err)
	}
	for _, file := range files {
		seed, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte("-- tree/a.bu --\nvariant: fcos\nversion: 1.5.0\nstorage:\n  trees: [{local: d}]\n" +
		"  files: [{path: /etc/x, contents: {local: l}}, {path: /etc/y, contents: {local: ../secret}}]\n" +
		"-- tree/l --\n-> ../secret\n-- tree/d/l --\n-> ../../secret\n-- tree/b.bu --\n-> ../secret\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte(outside)) {
			t.Skip()
		}
		top := t.TempDir()
		write(t, filepath.Join(top, "secret"), []byte("variant: fcos # "+outside+"\n"), 0o644)
		dir := filepath.Join(top, "tree")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, entry := range txtar.Parse(text).Files {
			plant(dir, top, entry)
		}
		in := opened(t, dir)
		out, findings, err := adopt.ImportTree(adopt.TreeInput{Tree: in, Files: in, Pool: "worker"})
		if err != nil {
			return
		}
		treeKeepsThePromises(t, out)
		for name, data := range out.Files {
			if bytes.Contains(data, []byte(outside)) {
				t.Errorf("%s holds what is outside of the directory", name)
			}
		}
		again, more, err := adopt.ImportTree(adopt.TreeInput{Tree: in, Files: in, Pool: "worker"})
		if err != nil || !maps.EqualFunc(out.Files, again.Files, bytes.Equal) || !slices.Equal(findings, more) {
			t.Error("the second import gives another repository")
		}
	})
}

// plant puts a file or a symbolic link into the directory, if it has a path there.
func plant(dir, top string, entry txtar.File) {
	name := filepath.Join(top, filepath.FromSlash(entry.Name))
	if rel, err := filepath.Rel(dir, name); err != nil || !filepath.IsLocal(rel) || rel == "." {
		return
	}
	if os.MkdirAll(filepath.Dir(name), 0o755) != nil {
		return
	}
	if target, link := bytes.CutPrefix(entry.Data, []byte("-> ")); link {
		_ = os.Symlink(string(bytes.TrimSpace(target)), name) // a name that no system takes is no case
		return
	}
	if file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
		_, _ = file.Write(entry.Data)
		_ = file.Close()
	}
}
