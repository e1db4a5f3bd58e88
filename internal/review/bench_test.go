package review_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/source"
)

// large is a repository of 10 pools with 20 documents each, of 5 files each, of which the first so many documents are
// at another version.
func large(changed int, version string) source.Tree {
	fsys := fstest.MapFS{}
	for pool := range 10 {
		for doc := range 20 {
			at := "0"
			if pool*20+doc < changed {
				at = version
			}
			var b strings.Builder
			b.WriteString("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n")
			for file := range 5 {
				fmt.Fprintf(&b, "    - path: /etc/p%d/d%d/f%d.conf\n      mode: 0644\n      contents:\n"+
					"        inline: |\n", pool, doc, file)
				for line := range 20 {
					fmt.Fprintf(&b, "          setting%d = %s\n", line, at)
				}
			}
			fsys[fmt.Sprintf("pools/%s/%02d-doc.bu", poolName(pool), doc+10)] = &fstest.MapFile{
				Data: []byte(b.String()), Mode: 0o644,
			}
		}
		if pool > 1 {
			fsys[fmt.Sprintf("cluster/%s.yaml", poolName(pool))] = &fstest.MapFile{
				Data: []byte(strings.ReplaceAll(poolObject, "NAME", poolName(pool))),
			}
		}
	}
	return source.Tree{FS: fsys, Digest: fmt.Sprintf("sha256:%d-%s", changed, version)}
}

func poolName(i int) string {
	return []string{"master", "worker", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"}[i]
}

const poolObject = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: NAME
spec:
  machineConfigSelector:
    matchLabels: {machineconfiguration.openshift.io/role: NAME}
  nodeSelector:
    matchLabels: {node-role.kubernetes.io/NAME: ""}
`

// rendering renders a tree, or fails.
func rendering(tb testing.TB, r *review.Renderings, tree source.Tree) review.Rendering {
	tb.Helper()
	res, out, _ := r.Render(tree, nil)
	if res.Report.Fatal() || out.Err != nil {
		tb.Fatal(res.Report, out.Err)
	}
	return out
}

// TestOneMemoryForBothSides: the second side shares what did not change with the first, and the comparison finds just
// what did.
func TestOneMemoryForBothSides(t *testing.T) {
	var r review.Renderings
	base, head := rendering(t, &r, large(0, "1")).Side("base"), rendering(t, &r, large(21, "1")).Side("head")
	c := review.Compare(base, head)
	for i, want := range map[string]int{"master": 100, "worker": 5, "p9": 0} {
		for _, p := range c.Pools {
			if p.Pool == i && len(p.Items) != want {
				t.Errorf("pool %s has %d changes, want %d", p.Pool, len(p.Items), want)
			}
		}
	}
	var alone review.Renderings
	again := review.Compare(base, rendering(t, &alone, large(21, "1")).Side("head"))
	if report.Markdown(again, report.MarkdownOptions{}) != report.Markdown(c, report.MarkdownOptions{}) {
		t.Error("without the memory of base it says something else")
	}
	if at := c.Pools[0].Items[0].Origin; at != "pools/master/10-doc.bu:8:9" {
		t.Errorf("the first change is from %q", at)
	}
	if _, err := fs.Stat(large(0, "1").FS, "pools/p9/29-doc.bu"); err != nil || len(c.Pools) != 10 {
		t.Errorf("the repository is not as large as it should be: %v", err)
	}
}

// BenchmarkCompare compares two renderings of 200 documents in 10 pools: the cost of Compare alone.
func BenchmarkCompare(b *testing.B) {
	for _, changed := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("%d of 200 documents changed", changed), func(b *testing.B) {
			var r review.Renderings
			base, head := rendering(b, &r, large(0, "1")).Side("base"),
				rendering(b, &r, large(changed, "1")).Side("head")
			b.ReportAllocs()
			for b.Loop() {
				c := review.Compare(base, head)
				if c.Changed() != (changed > 0) {
					b.Fatal("wrong")
				}
			}
		})
	}
}

// BenchmarkHead is all that a second side costs when the first is in memory: transpiling, rendering, comparing,
// printing.
func BenchmarkHead(b *testing.B) {
	for _, changed := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d of 200 documents changed", changed), func(b *testing.B) {
			var r review.Renderings
			base := rendering(b, &r, large(0, "1")).Side("base")
			trees := make([]source.Tree, 1_000)
			for i := range trees {
				trees[i] = large(changed, fmt.Sprint(i+1))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				head := rendering(b, &r, trees[i%len(trees)]).Side("head")
				if text := report.Markdown(review.Compare(base, head), report.MarkdownOptions{}); len(text) < 1_000 {
					b.Fatal(text)
				}
			}
		})
	}
}
