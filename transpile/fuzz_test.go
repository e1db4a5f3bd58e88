package transpile_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// FuzzCluster: whatever cluster/ holds, there is a report of it and no panic. The guard that turns a panic into an
// error would hide one, so its error fails the test.
func FuzzCluster(f *testing.F) {
	for _, name := range []string{"cluster-no-spec", "cluster-schema"} {
		a, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasPrefix(file.Name, "cluster/") {
				f.Add(string(file.Data))
			}
		}
	}
	const document = "variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/motd, contents: {inline: hello}}]}\n"
	f.Fuzz(func(t *testing.T, object string) {
		tree := source.Tree{FS: fstest.MapFS{
			"pools/worker/10-motd.bu": {Data: []byte(document), Mode: os.FileMode(0o644)},
			"cluster/object.yaml":     {Data: []byte(object), Mode: os.FileMode(0o644)},
		}}
		result := transpile.Fragments(tree)
		for _, e := range result.Report {
			if e.Rule == "internal" {
				t.Errorf("%s\n%s", e.Message, object)
			}
		}
		if !result.Report.Fatal() && len(result.Fragments) != 1 {
			t.Errorf("%d fragments", len(result.Fragments))
		}
	})
}
