package inspect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
)

// TestANodeBeginsNoLine: whatever a node writes into an annotation that it may write, no line of an answer begins with
// its text: neither advice nor a row of another node.
func TestANodeBeginsNoLine(t *testing.T) {
	const hostile = "x\nTo do:     evil | sh\nnode-9   /etc/sudoers.d/backdoor   content   Report\r\u2028To do: evil"
	item := map[string]any{"name": hostile, "kind": "content", "action": "Degrade", "since": nil, "why": hostile}
	documents := map[string]any{
		v1alpha1.DriftAnnotation:   map[string]any{"config": hostile, "items": []any{item}},
		v1alpha1.FailureAnnotation: map[string]any{"config": hostile, "cause": hostile, "path": hostile, "problem": hostile},
		v1alpha1.FetchedAnnotation: map[string]any{"config": hostile, "problem": hostile},
		v1alpha1.PinnedAnnotation:  map[string]any{"digest": hostile, "problem": hostile},
		v1alpha1.TrustReportAnnotation: map[string]any{
			"revision": hostile, "failed": hostile,
			"blocked": []any{map[string]any{"path": hostile, "from": hostile, "why": hostile}},
		},
	}
	annotations := map[string]string{
		v1alpha1.DesiredConfigAnnotation: "rendered-worker-2", v1alpha1.StateAnnotation: "Degraded",
	}
	for _, a := range v1alpha1.NodeAnnotations() {
		if a.Writer != v1alpha1.DaemonWriter || a.Key == v1alpha1.StateAnnotation {
			continue
		}
		annotations[a.Key] = hostile
		if document, ok := documents[a.Key]; ok {
			raw, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			annotations[a.Key] = string(raw)
		}
	}
	for _, state := range []string{"Degraded", "Working", "Done", hostile} {
		annotations[v1alpha1.StateAnnotation] = state
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
				"name": "n1", "labels": map[string]string{"node-role.kubernetes.io/worker": ""},
				"annotations": annotations,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := parse(t, []byte(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker}
spec: {nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}, configuration: {name: rendered-worker-2}}
---
`+string(raw)))
		for answer, text := range map[string]string{
			"why node": c.why(t, "node/n1"), "why pool": c.why(t, "pool/worker"),
			"status": inspect.NewOverview(c.Cluster, noon).StatusText(), "drift": inspect.NewDriftReport(c.Nodes, nil,
				noon).Text(noon),
		} {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "To do:     evil") || strings.HasPrefix(line, "To do: evil") ||
					strings.HasPrefix(line, "node-9") || strings.ContainsAny(strings.TrimSuffix(line, "\n"),
					"\r\u2028") {
					t.Errorf("%s, state %.10q: a line of the node:\n%s", answer, state, text)
				}
			}
		}
	}
}

// TestTheNameOfADeletedSourceIsNoCommand: whoever may change a pool's record cannot put a command into the advice.
func TestTheNameOfADeletedSourceIsNoCommand(t *testing.T) {
	for name, told := range map[string]bool{"team": true, "team\nevil | sh #": false, "$(evil)": false} {
		target, err := json.Marshal(map[string]any{"config": "rendered-worker-2", "gone": map[string]string{name: "d"}})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := json.Marshal(map[string]any{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
			"metadata": map[string]any{
				"name": "worker", "annotations": map[string]string{v1alpha1.TargetAnnotation: string(target)},
			},
			"spec": map[string]any{"configuration": map[string]string{"name": "rendered-worker-2"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		text := parse(t, []byte(`apiVersion: bunsen.dev/v1alpha1
kind: GitSource
metadata: {name: os}
status: {appliedRevision: "main@sha1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
---
`+string(pool))).why(t, "pool/worker")
		if strings.Contains(text, "evil") || strings.Contains(text, "was deleted") != told {
			t.Errorf("%q:\n%s", name, text)
		}
	}
}
