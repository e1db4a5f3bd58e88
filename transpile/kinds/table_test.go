package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// FuzzRead: whatever a table says, reading it ends in valid names and values, or in findings with a position in it.
func FuzzNodeFacts(f *testing.F) {
	for _, text := range []string{
		"worker-1: {address: 192.0.2.11/24, serial: S4EVNX0R}\nworker-2: {address: }\n",
		"worker-1: {a: 1, a: 2}\nworker-1: {}\n",
		"apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\n",
		"worker-1: [a]\nworker-2: {a: [x]}\nUPPER: {a: b}\n",
		"worker-1: {a: !!binary aGVsbG8=, b: 0644, c: 2020-01-01, d: ~, e: \"x\\ny\", f: \"\\u202e\"}\n",
		"a: &x {a: b}\nb: *x\nc: {<<: *x}\n",
		"- a\n", "a", "", "{", "? {a: b}\n: {c: d}\n", "---\na: {}\n---\nb: {}\n", "\xff\xfe", "a: {\t}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		rows, isTable, found := kinds.ReadNodeFacts("nodes.yaml", src)
		if !isTable && len(rows)+len(found) > 0 {
			t.Errorf("an object has rows %v and findings %v", rows, found)
		}
		for _, p := range found {
			if p.At.File != "nodes.yaml" || p.At.Line > len(src)+1 {
				t.Errorf("a finding is at %v: %s", p.At, p.Message)
			}
		}
		for _, r := range rows {
			if len(found) == 0 && len(validation.IsDNS1123Subdomain(r.Node)) > 0 {
				t.Errorf("a row is of node %q", r.Node)
			}
			for name, value := range r.Facts() {
				if machineconfig.CheckFactName(name) != "" || machineconfig.CheckFactValue(value) != "" {
					t.Errorf("node %s has the fact %q: %q", r.Node, name, value)
				}
			}
		}
	})
}
