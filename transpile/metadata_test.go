package transpile_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// TestMetadataIsRefusedExactlyWhereTheAPIServerRefusesIt compares the report with the function by which the API server
// validates the metadata of custom resources.
func TestMetadataIsRefusedExactlyWhereTheAPIServerRefusesIt(t *testing.T) {
	long := strings.Repeat("x", 64)
	words := []string{
		"a", "A", "a b", "-a", "a-", "a/b", "a/b/c", "/a", "a/", "a.b/c", "A.b/C", "a..b/c", "ä", long,
		long[1:], "x.y/" + long, strings.Repeat("y", 253) + "/z", strings.Repeat("y", 254) + "/z",
		strings.Repeat("n.", 126) + "n", strings.Repeat("n.", 127) + "n",
	}
	var metas []metav1.ObjectMeta
	for _, w := range words {
		metas = append(metas,
			metav1.ObjectMeta{Name: w}, metav1.ObjectMeta{Name: "n", Labels: map[string]string{w: "v"}},
			metav1.ObjectMeta{Name: "n", Labels: map[string]string{"k": w}},
			metav1.ObjectMeta{Name: "n", Annotations: map[string]string{w: "v"}},
			metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"k": w}})
	}
	for _, size := range []int{0, 1} {
		metas = append(metas,
			metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"k": strings.Repeat("v", 256<<10-1+size)}})
	}
	refusals := 0
	for _, meta := range metas {
		want := apivalidation.ValidateObjectMeta(&meta, false, apivalidation.NameIsDNSSubdomain,
			field.NewPath("metadata"))
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "bunsen.dev/v1alpha1", "kind": "RolloutPolicy", "spec": map[string]any{},
			"metadata": map[string]any{"name": meta.Name, "labels": meta.Labels, "annotations": meta.Annotations},
		})
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		write(t, root, "pools/worker/10-a.bu", "variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/a}]}\n")
		write(t, root, "cluster/a.yaml", string(raw))
		report := transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)}).Report
		if report.Fatal() != (len(want) > 0) {
			t.Errorf("%.100s\nthe API server: %.200v\nthe report: %.200v", raw, want.ToAggregate(), report)
		}
		if report.Fatal() {
			refusals++
		}
	}
	if refusals < 20 {
		t.Errorf("only %d of %d are refused", refusals, len(metas))
	}
}
