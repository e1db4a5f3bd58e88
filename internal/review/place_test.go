package review_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// TestANodeHasItsPoolsLines: the config of a node names the lines of the pool's documents too, and not the config of
// the pool from which it is merged.
func TestANodeHasItsPoolsLines(t *testing.T) {
	const root = "../../examples/bare-metal"
	tree := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(root + "/" + path)
		tree[path] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	res := transpile.Fragments(source.Tree{FS: tree})
	fragments, err := transpile.Select(res, "worker")
	if err != nil {
		t.Fatalf("%v\n%v", err, res.Report)
	}
	var inputs []*mcfgv1.MachineConfig
	for _, f := range fragments {
		inputs = append(inputs, f.MachineConfig)
	}
	pool, err := render.Merge("worker", inputs, render.Defaults{LargeFiles: true}.ForExisting())
	if err != nil {
		t.Fatal(err)
	}
	node, err := pool.Node("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	of := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	places, same, err := review.Explain(of, "worker", inputs, res.Fragments)
	if err != nil || !same {
		t.Fatalf("the same config: %v, %v", same, err)
	}
	ofPool := false
	for _, p := range places {
		ofPool = ofPool || strings.HasPrefix(p.At, "pools/worker/10-time.bu:")
		if p.Foreign != "" || !strings.HasPrefix(p.At, "pools/worker/") {
			t.Errorf("%s is set by %q, of no repository: %q", p.Item, p.At, p.Foreign)
		}
	}
	if !ofPool {
		t.Errorf("no item is set by a document of the pool: %v", places)
	}
}
