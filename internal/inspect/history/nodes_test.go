package history_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
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

// TestATraceOfANodeMarksWhatWasChangedByHand: the commit that set a file last is not who changed it on this node.
func TestATraceOfANodeMarksWhatWasChangedByHand(t *testing.T) {
	tr := history.Trace{
		Rendered: history.RenderedTrace{Name: "rendered-worker-1"},
		Items: []history.TraceItem{
			{Item: "file /etc/motd"},
			{Item: "unit a.service"},
			{Item: "file /etc/hosts"},
			{Item: "user core"},
			{Item: "unit b.service"},
		},
	}
	tr.OfNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-2", Annotations: map[string]string{
		v1alpha1.DriftAnnotation: `{"config":"rendered-worker-1","items":[
			{"name":"/etc/motd","kind":"content","action":"Degrade","since":"2026-01-02T12:00:00Z",
				"modified":"2026-01-02T11:58:00Z"},
			{"name":"/etc/systemd/system/a.service","kind":"missing","action":"Repair","since":"2026-01-02T12:00:00Z"},
			{"name":"/srv/system/core","kind":"content","action":"Ignore","since":"2026-01-02T12:00:00Z"},
			{"name":"/etc/systemd/system/b.service.d/10-a.conf","kind":"mode","action":"Ignore",
				"since":"2026-01-02T12:00:00Z"}]}`,
	}}})
	text := tr.Text()
	for _, want := range []string{
		"file /etc/motd    -        by hand on worker-2 at 2026-01-02 11:58:00 UTC, by whom is not recorded; before that -\n",
		"unit a.service    -        by hand on worker-2 at 2026-01-02 12:00:00 UTC, ",
		"file /etc/hosts   -        -\n",
		"user core         -        -\n",
		"unit b.service    -        by hand on worker-2 at 2026-01-02 12:00:00 UTC, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace lacks %q:\n%s", want, text)
		}
	}
	if err := tr.Only("/etc/mtd"); err == nil || !strings.Contains(err.Error(), `no file, unit or user "/etc/mtd"`) {
		t.Errorf("an unknown item: %v", err)
	}
	if err := tr.Only("a.service"); err != nil || len(tr.Items) != 1 || tr.Items[0].Item != "unit a.service" {
		t.Errorf("one item: %v, %v", tr.Items, err)
	}
}
