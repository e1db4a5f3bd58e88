package history_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

func TestTheTraceOfANodeHasNoFilesOfOtherNodes(t *testing.T) {
	tr := history.Trace{Inputs: []history.TraceInput{{Name: "99-worker-generated-nodes", Files: []string{
		"base/nodes/common.bu", "pools/worker/20-network.bu", "pools/worker/nodes.yaml",
		"pools/worker/nodes/worker-1/10-own.bu", "pools/worker/nodes/worker-2/10-own.bu",
	}}}}
	tr.OfNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"}})
	want := []string{
		"base/nodes/common.bu", "pools/worker/20-network.bu", "pools/worker/nodes.yaml",
		"pools/worker/nodes/worker-2/10-own.bu",
	}
	if got := tr.Inputs[0].Files; !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
}
