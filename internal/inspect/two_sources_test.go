package inspect_test

import (
	"strings"
	"testing"
)

// TestARefusedCommitOfEachSource: several sources may feed a pool, and it waits for each of them.
func TestARefusedCommitOfEachSource(t *testing.T) {
	const objects = `
apiVersion: bunsen.dev/v1alpha1
kind: GitSource
metadata: {name: config}
spec: {url: "https://git.example.com/os"}
status:
  observedRevision: main@sha1:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
  appliedRevision: main@sha1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
  conditions:
    - {type: Ready, status: "False", reason: TranspileFailed, lastTransitionTime: "2026-01-02T11:59:00Z", message: "pools/worker/40-hello.bu:4:3: a mistake"}
    - {type: Stalled, status: "True", reason: TranspileFailed, lastTransitionTime: "2026-01-02T11:59:00Z"}
---
apiVersion: bunsen.dev/v1alpha1
kind: GitSource
metadata: {name: two}
spec: {url: "https://git.example.com/two"}
status:
  observedRevision: main@sha1:cccccccccccccccccccccccccccccccccccccccc
  appliedRevision: main@sha1:cccccccccccccccccccccccccccccccccccccccc
  conditions:
    - {type: Ready, status: "True", reason: Succeeded, lastTransitionTime: "2026-01-02T11:00:00Z"}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
  annotations:
    bunsen.dev/source: two
    bunsen.dev/target: 'TARGET'
spec:
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b}
`
	for sentence, tc := range map[string]struct {
		sources string
		blocked bool
	}{
		"the pool has documents of both": {`"config":{"inputs":"a1"},"two":{"inputs":"c1"}`, true},
		"the pool has none of the other": {`"two":{"inputs":"c1"}`, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			target := `{"config":"rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b","sources":{` + tc.sources + `}}`
			why := parse(t, []byte(strings.ReplaceAll(objects, "TARGET", target))).why(t, "pool/worker")
			if is := strings.HasPrefix(why, "pool/worker is blocked: GitSource config "); is != tc.blocked {
				t.Errorf("it says:\n%s", why)
			}
		})
	}
}
