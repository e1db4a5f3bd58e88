package transpile_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// An annotation has the list of the files, so a pool with thousands of directories must not make it too large.
func TestTheOriginOfManyNodesIsShort(t *testing.T) {
	const document = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/own\n" +
		"      contents: {inline: \"%d\"}\n"
	for _, c := range []struct {
		nodes, files int
		last         string
	}{{3, 3, "pools/worker/nodes/worker-0002/10-own.bu"}, {3000, 1, "pools/worker/nodes"}} {
		tree := fstest.MapFS{"pools/worker/00-all.bu": &fstest.MapFile{Data: fmt.Appendf(nil, document, -1)}}
		for i := range c.nodes {
			tree[fmt.Sprintf("pools/worker/nodes/worker-%04d/10-own.bu", i)] = &fstest.MapFile{Data: fmt.Appendf(nil,
				document, i)}
		}
		result := transpile.Fragments(source.Tree{FS: tree})
		if result.Report.Fatal() || len(result.Fragments) != 2 {
			t.Fatalf("%d nodes: %d fragments, %s", c.nodes, len(result.Fragments), result.Report)
		}
		files := result.Fragments[1].Origin.Files
		if len(files) != c.files || files[len(files)-1].Path != c.last || len(files[0].Blob) != 64 {
			t.Errorf("%d nodes: the origin has %d files: %v", c.nodes, len(files), files)
		}
	}
}
