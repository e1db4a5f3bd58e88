package render

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func fileSpec(path, text string) mcfgv1.MachineConfigSpec {
	raw := fmt.Sprintf(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":%q,"contents":{"source":%q}}]}}`,
		path, "data:,"+text)
	return mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}}
}

func ofPool(name, pool string, spec mcfgv1.MachineConfigSpec) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{RoleLabel: pool}},
		Spec:       spec,
	}
}

func tableOf(t *testing.T, pool string, nodes map[string]machineconfig.NodeFacts) *mcfgv1.MachineConfig {
	t.Helper()
	mc, err := machineconfig.NodeTable{Pool: pool, Nodes: nodes, Shared: []machineconfig.NodeDocument{
		{Name: "50-worker-address", Spec: fileSpec("/etc/address", "%24%7Bnode.address%7D")},
	}}.MachineConfig()
	if err != nil {
		t.Fatal(err)
	}
	return mc
}

func rowOf(address string) machineconfig.NodeFacts {
	return machineconfig.NodeFacts{Facts: map[string]string{"address": address}}
}

func merged(t *testing.T, pool string, mcs ...*mcfgv1.MachineConfig) Rendered {
	t.Helper()
	r, err := Merge(pool, mcs, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNodesWithoutRowsKeepTheConfigOfThePool(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "a"))
	plain := merged(t, "worker", chrony)
	r := merged(t, "worker", chrony, tableOf(t, "worker", map[string]machineconfig.NodeFacts{
		"a": rowOf("192.0.2.1"),
		"b": rowOf("192.0.2.2"), "c": rowOf("192.0.2.1"),
	}))
	if r.Nodes.Base != plain.Name || !reflect.DeepEqual(r.Spec, plain.Spec) || r.Nodes.Of("other") != plain.Name {
		t.Errorf("the config of the other nodes is %s, want %s", r.Nodes.Of("other"), plain.Name)
	}
	if r.Name == plain.Name || r.Nodes.Of("a") == r.Nodes.Of("b") || r.Nodes.Of("a") != r.Nodes.Of("c") {
		t.Errorf("equal contents share one config, others do not: %+v", r.Nodes)
	}
	own, err := r.Node("b")
	if err != nil || own.Name != r.Nodes.Of("b") || !strings.Contains(string(own.Spec.Config.Raw), "data:,192.0.2.2") ||
		!strings.Contains(string(own.Spec.Config.Raw), "/etc/chrony.conf") {
		t.Errorf("the config of b is %s %s, %v", own.Name, own.Spec.Config.Raw, err)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:        r.Name,
		Annotations: map[string]string{"bunsen.dev/node-configs": r.Nodes.String()},
	}, Spec: r.Spec}
	if err := machineconfig.CheckName("worker", mc, mc.Spec); err != nil {
		t.Error(err)
	}
	if node, ok := r.NodeOf(own.Name); !ok || node != "b" {
		t.Errorf("%s is the config of %q", own.Name, node)
	}
}

func TestATableOfAnotherPoolHasNoEffect(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "a"))
	plain := merged(t, "infra", chrony)
	r := merged(t, "infra", chrony, tableOf(t, "worker", map[string]machineconfig.NodeFacts{"a": rowOf("192.0.2.1")}))
	if r.Name != plain.Name || !r.Nodes.IsZero() {
		t.Errorf("infra has %s with %v, want %s", r.Name, r.Nodes, plain.Name)
	}
}

func TestAnEmptyTableLeavesTheNameOfThePoolAsItIs(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "a"))
	plain := merged(t, "worker", chrony)
	if r := merged(t, "worker", chrony, tableOf(t, "worker", nil)); r.Name != plain.Name {
		t.Errorf("%s, want %s", r.Name, plain.Name)
	}
}

func TestTheOrderOfRowsDoesNotMatter(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "a"))
	names := []string{"a", "b", "c", "d", "e"}
	var want string
	for range 10 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		nodes := map[string]machineconfig.NodeFacts{}
		for _, n := range names {
			nodes[n] = rowOf("192.0.2." + fmt.Sprint(n[0]))
		}
		r := merged(t, "worker", tableOf(t, "worker", nodes), chrony)
		if want != "" && r.Name != want {
			t.Fatalf("%s, then %s", want, r.Name)
		}
		want = r.Name
	}
}

func TestADocumentOfANodeOverridesThePoolAndIsThatNodesAlone(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "pool"))
	r := merged(t, "worker", chrony,
		tableOf(t, "worker",
			map[string]machineconfig.NodeFacts{
				"a": {Documents: []machineconfig.NodeDocument{{Name: "10-worker-chrony", Spec: fileSpec("/etc/chrony.conf",
					"node")}}},
			}))
	own, err := r.Node("a")
	if err != nil || !strings.Contains(string(own.Spec.Config.Raw), "data:,node") ||
		strings.Contains(string(own.Spec.Config.Raw), "/etc/address") {
		t.Errorf("%s, %v", own.Spec.Config.Raw, err)
	}
}

func TestOneChangedRowMergesOneConfig(t *testing.T) {
	chrony := Read(ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "a")))
	nodes := map[string]machineconfig.NodeFacts{}
	for i := range 50 {
		nodes[fmt.Sprintf("worker-%d", i)] = rowOf(fmt.Sprintf("192.0.2.%d", i))
	}
	before, err := mergeInputs("worker", []Input{chrony, Read(tableOf(t, "worker", nodes))}, Defaults{}, Rendered{},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes["worker-7"] = rowOf("198.51.100.7")
	// An earlier result with wrong names shows which of them the merge uses.
	for key := range before.own.names {
		before.own.names[key] = ownConfig{name: "rendered-worker-known"}
	}
	after, err := mergeInputs("worker", []Input{chrony, Read(tableOf(t, "worker", nodes))}, Defaults{}, before, nil)
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	for node := range nodes {
		if after.Nodes.Of(node) != "rendered-worker-known" {
			again = append(again, node)
		}
	}
	if !slices.Equal(again, []string{"worker-7"}) {
		t.Errorf("merged again: %v", again)
	}
}

// TestTheContentOfANodeIsItsConfig: what the controller compares and writes is what was named.
func TestTheContentOfANodeIsItsConfig(t *testing.T) {
	chrony := ofPool("50-worker-chrony", "worker", fileSpec("/etc/chrony.conf", "pool"))
	large := func(path string) mcfgv1.MachineConfigSpec { return fileSpec(path, strings.Repeat("x", MaxSize*2/3)) }
	old := mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"2.2.0"},` +
		`"storage":{"files":[{"filesystem":"root","path":"/etc/old","mode":420,"contents":{"source":"data:,a"}}]}}`)}}
	arguments := mcfgv1.MachineConfigSpec{KernelArguments: []string{"b", "a", "b"}, KernelType: "realtime"}
	document := func(name string, spec mcfgv1.MachineConfigSpec) machineconfig.NodeDocument {
		return machineconfig.NodeDocument{Name: name, Spec: spec}
	}
	table := tableOf(t, "worker", map[string]machineconfig.NodeFacts{
		"facts":     rowOf("192.0.2.1"),
		"override":  {Documents: []machineconfig.NodeDocument{document("10-a", fileSpec("/etc/chrony.conf", "node"))}},
		"old":       {Documents: []machineconfig.NodeDocument{document("10-a", old), document("20-b", arguments)}},
		"large":     {Documents: []machineconfig.NodeDocument{document("10-a", large("/a")), document("20-b", large("/b"))}},
		"no config": {},
	})
	find := func() (Rendered, error) {
		return Merge("worker", []*mcfgv1.MachineConfig{chrony, table}, Defaults{LargeFiles: true})
	}
	for sentence, known := range map[string]func() (Rendered, error){
		"the names were found from the table": find,
		"the names are those of the cluster": func() (Rendered, error) {
			r, err := find()
			if err != nil {
				return r, err
			}
			return WithNodes(merged(t, "worker", chrony), table, r.Nodes)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			r, err := known()
			if err != nil {
				t.Fatal(err)
			}
			for _, node := range []string{"facts", "override", "old", "large", "no config", "another"} {
				whole, err := r.Node(node)
				if err != nil {
					t.Fatal(err)
				}
				content, err := r.content(node)
				if err != nil {
					t.Fatal(err)
				}
				if moved := node == "large"; moved != (len(content.Contents) > 0) {
					t.Errorf("%s: %d files are in the content store", node, len(content.Contents))
				}
				content.Notices, content.Warnings, content.book = whole.Notices, whole.Warnings, whole.book
				if !reflect.DeepEqual(content, whole) {
					t.Errorf("%s has\n%+v\nnot\n%+v", node, content, whole)
				}
			}
		})
	}
}

// TestATargetSaysThatItsConfigsReferToSecrets: the server and the rollout read it from the target alone.
func TestATargetSaysThatItsConfigsReferToSecrets(t *testing.T) {
	spec := mcfgv1.MachineConfigSpec{
		Config: runtime.RawExtension{
			Raw: []byte(
				`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/s","mode":384,"contents":{"source":"data:application/vnd.bunsen.template,%24%7Bsecret:a/b%7D"}}]}}`),
		},
	}
	plain := mcfgv1.MachineConfigSpec{
		Config: runtime.RawExtension{
			Raw: []byte(
				`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/p","contents":{"source":"data:,p"}}]}}`),
		},
	}
	for says, c := range map[string]struct {
		base, own mcfgv1.MachineConfigSpec
		want      bool
	}{
		"in the config of the pool":       {spec, plain, true},
		"in the document of a node alone": {plain, spec, true},
		"nowhere":                         {plain, plain, false},
	} {
		row := rowOf("192.0.2.1")
		row.Documents = []machineconfig.NodeDocument{{Name: "50-own", Spec: c.own}}
		r, err := Merge("worker", []*mcfgv1.MachineConfig{
			ofPool("50-worker-base", "worker", c.base),
			tableOf(t, "worker", map[string]machineconfig.NodeFacts{"a": row}),
		}, Defaults{})
		if err != nil || r.Nodes.Secrets != c.want || strings.Contains(r.Nodes.String(), "secrets") != c.want {
			t.Errorf("%s: %s, %v", says, r.Nodes, err)
		}
	}
}

// TestValuesCannotChangeTheStructure puts hostile values into a document. The result has the same items, and one text
// differs.
func TestValuesCannotChangeTheStructure(t *testing.T) {
	shape := func(spec mcfgv1.MachineConfigSpec) string {
		var config any
		if err := json.Unmarshal(spec.Config.Raw, &config); err != nil {
			t.Fatal(err)
		}
		var walk func(any) any
		walk = func(v any) any {
			switch v := v.(type) {
			case map[string]any:
				for k := range v {
					v[k] = walk(v[k])
				}
			case []any:
				for i := range v {
					v[i] = walk(v[i])
				}
			case string:
				return ""
			}
			return v
		}
		text, _ := json.Marshal(walk(config))
		return string(text)
	}
	spec := fileSpec("/etc/x", "a=%24%7Bnode.value%7D")
	want := shape(spec)
	for _, value := range []string{
		`"}},{"path":"/etc/passwd"`, "%0Aroot:x:0:0", "a\nb: c", "{{x}}", "\u202e",
		"$${node.value}", `\u0022`, "data:,x", ",",
	} {
		out, err := machineconfig.ExpandFacts(spec, map[string]string{"value": value})
		if err != nil {
			t.Fatal(err)
		}
		if got := shape(out); got != want {
			t.Errorf("%q changes the structure to %s", value, got)
		}
		config, err := machineconfig.Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := machineconfig.Contents(config.Ignition.Storage.Files[0].Contents); err != nil ||
			string(text) != "a="+value {
			t.Errorf("%q becomes %q, %v", value, text, err)
		}
	}
}

// TestTheConfigsOfNodesHaveABudget: 700 KiB and 2,500 rows are 1.7 GiB in etcd, from a commit of less than 1 MiB. No
// config is merged to find that out.
func TestTheConfigsOfNodesHaveABudget(t *testing.T) {
	rows := func(n int) map[string]machineconfig.NodeFacts {
		all := map[string]machineconfig.NodeFacts{}
		for i := range n {
			all[fmt.Sprintf("node-%04d", i)] = rowOf(fmt.Sprint(i))
		}
		return all
	}
	large := ofPool("50-worker-large", "worker", fileSpec("/opt/large", strings.Repeat("a", 700<<10)))
	_, err := Merge("worker", []*mcfgv1.MachineConfig{large, tableOf(t, "worker", rows(2500))}, Defaults{})
	if err == nil || !strings.Contains(err.Error(), "the configs of 2500 single nodes of pool worker have up to "+
		"1729 MiB "+
		"together, and a cluster stores at most 256 MiB") || !strings.Contains(err.Error(), "file /opt/large") {
		t.Error(err)
	}
	small := ofPool("50-worker-small", "worker", fileSpec("/opt/small", "a"))
	if r := merged(t, "worker", small, tableOf(t, "worker", rows(200))); len(r.Warnings) != 0 {
		t.Errorf("warnings: %q", r.Warnings)
	}
	middle := ofPool("50-worker-middle", "worker", fileSpec("/opt/middle", strings.Repeat("a", 200<<10)))
	r := merged(t, "worker", middle, tableOf(t, "worker", rows(90)))
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "write up to 18 MiB to the API server") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	_, err = Merge("worker", []*mcfgv1.MachineConfig{small, tableOf(t, "worker", rows(9000))}, Defaults{})
	if err == nil || !strings.Contains(err.Error(), "an annotation can have") {
		t.Error(err)
	}
}
