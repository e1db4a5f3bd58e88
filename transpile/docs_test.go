package transpile_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var fenced = regexp.MustCompile("(?ms)^```(yaml|json)\n(.*?)^```$")

// others are what the blocks on cluster/ leave to the rest of a repository: a pool for selectors, steps for gates.
const others = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: of-the-docs, labels: {tier: edge}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/edge: ""}}
---
apiVersion: bunsen.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: of-the-docs}
spec: {canary: {nodes: 1}}
`

// Whoever copies a block of the documentation gets what it says.
func TestEveryBlockOfTheDocumentationIsADocument(t *testing.T) {
	for page, least := range map[string]int{"repository.md": 8, "rollouts.md": 7, "gates.md": 1, "drains.md": 1} {
		t.Run(page, func(t *testing.T) { documents(t, page, least) })
	}
}

func documents(t *testing.T, page string, least int) {
	text, err := os.ReadFile("../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < least {
		t.Fatalf("only %d blocks", len(blocks))
	}
	for i, b := range blocks {
		root := t.TempDir()
		name := fmt.Sprintf("block %d", i)
		switch {
		case b[1] == "json":
			write(t, root, "pools/worker/10-a.ign", b[2])
		case strings.Contains(b[2], "kind: MachineConfigPool"), strings.Contains(b[2], "kind: MachineConfiguration\n"),
			strings.Contains(b[2], "kind: DriftPolicy"), strings.Contains(b[2], "kind: RolloutPolicy"):
			write(t, root, "pools/worker/10-a.bu", "variant: fcos\nversion: 1.6.0\n")
			write(t, root, "cluster/a.yaml", b[2])
			write(t, root, "cluster/others.yaml", others)
		default:
			first, _, _ := strings.Cut(b[2], "\n")
			file, ok := strings.CutPrefix(first, "# pools/worker/")
			if !ok {
				t.Errorf("%s does not begin with the name of its file: %s", name, first)
				continue
			}
			write(t, root, "pools/worker/"+file, b[2])
			name = file
		}
		r := transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
		if len(r.Report) > 0 || len(r.Fragments) != 1 {
			t.Errorf("%s: %d fragments\n%s\n%s", name, len(r.Fragments), r.Report, b[2])
		}
	}
}
