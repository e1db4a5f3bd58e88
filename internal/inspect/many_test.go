package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/inspect"
)

// TestManyNodesWithoutADaemon: 150 machines without a daemon are one problem, so that a user reads one answer and one
// list of commands, while nothing is rolled out and while it is.
func TestManyNodesWithoutADaemon(t *testing.T) {
	for sentence, current := range map[string]string{
		"all well": "rendered-worker-2", "in a rollout": "rendered-worker-1",
	} {
		t.Run(sentence, func(t *testing.T) {
			objects := []string{`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker}
spec: {nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}, configuration: {name: rendered-worker-2}}
`}
			node := func(name, annotations string) {
				objects = append(objects, `apiVersion: v1
kind: Node
metadata:
  name: `+name+`
  creationTimestamp: "2026-01-01T10:00:00Z"
  labels: {node-role.kubernetes.io/worker: ""}
  annotations: {`+annotations+`}
status: {conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-02T11:30:00Z"}]}
`)
			}
			for _, name := range []string{"a0", "a1"} {
				node(name, "machineconfiguration.openshift.io/currentConfig: "+current+
					", machineconfiguration.openshift.io/desiredConfig: "+current+
					", machineconfiguration.openshift.io/state: Done")
			}
			for i := range 150 {
				node(fmt.Sprintf("n%03d", i), "")
			}
			c := parse(t, []byte(strings.Join(objects, "---\n")))
			why := c.why(t, "pool/worker")
			_, todo, _ := strings.Cut(why, "To do:     ")
			const want = "kubectl get pods -A -o wide --field-selector spec.nodeName=n000\n" +
				"           journalctl -u machine-config-daemon   # on n000, and in the same way on n001, n002 and " +
				"147 more; to install the daemon: docs/daemon.md\n"
			if !strings.HasPrefix(todo, want) || strings.Contains(todo[len(want):], "           ") {
				t.Errorf("`why` advises:\n%s", todo)
			}
			if n := strings.Count(why, "no machine-config-daemon has reported from"); n != 1 ||
				!strings.Contains(why, "has reported from 150 nodes: n000, n001, n002 and 147 more") {
				t.Errorf("`why` says it %d times:\n%s", n, why)
			}
			if also := strings.Contains(why, "Also:"); also != (sentence == "in a rollout") {
				t.Errorf("another answer: %t\n%s", also, why)
			}
			status := inspect.NewStatus(c.Cluster, noon).Text()
			head, _, _ := strings.Cut(status, "\nNODE ")
			if !strings.Contains(head, "n002 (no machine-config-daemon has reported), 147 more") {
				t.Errorf("the status says:\n%s", head)
			}
		})
	}
}
