package docs_test

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// yamlKind is something that a block of YAML can be.
type yamlKind struct {
	is    func(block, *yaml.Node) bool
	check func(t *testing.T, b block, root *yaml.Node, text string)
}

// yamlKinds are asked in this order.
var yamlKinds = []yamlKind{
	{has("variant"), butaneBlock},
	{objectOf("v1", "Secret"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &corev1.Secret{}) }},
	{objectOf("apps/v1", "Deployment"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &appsv1.Deployment{}) }},
	{objectOf("bunsen.dev/v1alpha1", "GitSource"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &v1alpha1.GitSource{}) }},
	{objectOf("bunsen.dev/v1alpha1", "Notification"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &v1alpha1.Notification{}) }},
	{objectOf("bunsen.dev/v1alpha1", "BunsenStatus"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &v1alpha1.BunsenStatus{}) }},
	{objectOf("bunsen.dev/v1alpha1", "ProvisioningToken"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &v1alpha1.ProvisioningToken{}) }},
	{objectOf("bunsen.dev/v1alpha1", "RevisionContent"), func(t *testing.T, _ block, n *yaml.Node, _ string) { strictly(t, n, &v1alpha1.RevisionContent{}) }},
	{objectOf("machineconfiguration.openshift.io/v1", "MachineConfigPool"), clusterBlock},
	{objectOf("operator.openshift.io/v1", "MachineConfiguration"), clusterBlock},
	{objectOf("bunsen.dev/v1alpha1", "DriftPolicy", "RolloutPolicy"), clusterBlock},
	{objectOf("machineconfiguration.openshift.io/v1", "PinnedImageSet"), clusterBlock},
	{objectOf("machineconfiguration.openshift.io/v1", "MachineConfig", "KubeletConfig", "ContainerRuntimeConfig"), poolBlock},
	{objectOf("config.openshift.io/v1", "ImageDigestMirrorSet", "ImageTagMirrorSet", "ClusterImagePolicy"), poolBlock},
	{objectOf("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"), poolBlock},
	{objectOf("bunsen.dev/v1alpha1", "SSHKeys"), poolBlock},
	{installation, installationBlock},
	{installationPatch, installationPatchBlock},
	{objectOf("kustomize.config.k8s.io/v1beta1", "Kustomization"), kustomizationBlock},
	{objectOf("kustomize.config.k8s.io/v1alpha1", "Component"), kustomizationBlock},
	{kustomization, kustomizationBlock},
	{part, partBlock},
	{has("scrape_configs"), prometheusBlock},
	{disruptionRules, disruptionRulesBlock},
	{nodeTable, func(*testing.T, block, *yaml.Node, string) {}}, // nodeTable has read it
	{objectOf("backstage.io/v1alpha1", "Resource"), backstageBlock},
	{workflow, func(*testing.T, block, *yaml.Node, string) {}}, // it is YAML; what it runs is looked at as shell
}

func value(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		var next *yaml.Node
		for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func word(n *yaml.Node, keys ...string) string {
	if v := value(n, keys...); v != nil {
		return v.Value
	}
	return ""
}

func has(key string) func(block, *yaml.Node) bool {
	return func(_ block, n *yaml.Node) bool { return value(n, key) != nil }
}

func objectOf(apiVersion string, kinds ...string) func(block, *yaml.Node) bool {
	return func(_ block, n *yaml.Node) bool {
		return word(n, "apiVersion") == apiVersion && slices.Contains(kinds, word(n, "kind"))
	}
}

// workflow tells of the files of continuous integration.
func workflow(_ block, n *yaml.Node) bool {
	return value(n, "jobs") != nil || value(n, "stages") != nil || value(n, "script") != nil
}

// kustomization tells of a kustomization without apiVersion and kind.
func kustomization(_ block, n *yaml.Node) bool {
	return slices.ContainsFunc([]string{"resources", "patches", "components", "replacements"}, func(key string) bool {
		return value(n, key) != nil
	})
}

// parts are blocks that show a part of an object, by page and first key: what they are a part of.
var parts = map[string]func(*testing.T, *yaml.Node){
	"docs/sources.md spec":             gitSourcePart,
	"docs/sources-credentials.md spec": gitSourcePart,
	"docs/sources-oci.md spec":         gitSourcePart,
	"docs/sources-signatures.md spec":  gitSourcePart,
}

func gitSourcePart(t *testing.T, n *yaml.Node) { strictly(t, n, &v1alpha1.GitSource{}) }

func partOf(b block, n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return ""
	}
	return b.file + " " + n.Content[0].Value
}

func part(b block, n *yaml.Node) bool { return parts[partOf(b, n)] != nil }

func partBlock(t *testing.T, b block, n *yaml.Node, _ string) { parts[partOf(b, n)](t, n) }

// disruptionRules reports whether a block has rules of the disruption policy, as a review prints them.
func disruptionRules(_ block, n *yaml.Node) bool {
	for _, list := range []string{"files", "units"} {
		if v := value(n, list); v != nil && len(v.Content) > 0 && value(v.Content[0], "actions") != nil {
			return true
		}
	}
	return false
}

// disruptionRulesBlock builds a MachineConfiguration with the rules.
func disruptionRulesBlock(t *testing.T, b block, n *yaml.Node, text string) {
	t.Helper()
	head := "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\nspec:\n" +
		"  managementState: Managed\n  nodeDisruptionPolicy:\n    "
	clusterBlock(t, b, n, head+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")+"\n")
}

// prometheusBlock is a part of Prometheus' own configuration: the rules that it names are the ones that ship.
func prometheusBlock(t *testing.T, _ block, n *yaml.Node, _ string) {
	files := value(n, "rule_files")
	if files == nil || len(files.Content) == 0 {
		t.Fatal("no rule_files: the block shows no alerts")
	}
	for _, f := range files.Content {
		if _, err := os.Stat(path.Join("../../config/monitoring", f.Value)); err != nil {
			t.Errorf("rule_files names what does not ship: %v", err)
		}
	}
}

var placed = regexp.MustCompile(`^# (pools/([a-z0-9-]+)/[^ ]*|base/[^ ]*)\n`)

const roleLabel = "machineconfiguration.openshift.io/role"

// home is the file that a document's first line names, else one in the pool whose role it has.
func home(n *yaml.Node, text, name string) string {
	if m := placed.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	pool := word(n, "metadata", "labels", roleLabel)
	if pool == "" {
		pool = "worker"
	}
	return "pools/" + pool + "/" + name
}

// butaneBlock transpiles a document alone in its pool, with a stub for each file that it takes in.
func butaneBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	file := home(n, text, "10-block.bu")
	files := map[string]string{file: text}
	stubs(n, path.Dir(file), files)
	facts := map[string]string{}
	for _, m := range fact.FindAllStringSubmatch(text, -1) {
		if m[1] != machineconfig.NameFact {
			facts[m[1]] = m[1] + ": x"
		}
	}
	if strings.Contains(text, "${node.") {
		files[path.Dir(file)+"/"+kinds.NodeFactsFile] = "worker-1: {" + strings.Join(slices.Sorted(maps.Values(facts)),
			", ") + "}\n"
	}
	builds(t, withPool(path.Base(path.Dir(file)), files))
}

// fact matches a fact that a document uses.
var fact = regexp.MustCompile(`\$\{node\.([a-z]+)\}`)

// nodeTable reports whether a block is a table of facts without mistakes.
func nodeTable(_ block, n *yaml.Node) bool {
	text, err := yaml.Marshal(n)
	if err != nil || n.Kind != yaml.MappingNode {
		return false
	}
	rows, isTable, found := kinds.ReadNodeFacts(kinds.NodeFactsFile, text)
	return isTable && len(rows) > 0 && len(found) == 0
}

// stubs adds what the document names beside it.
func stubs(n *yaml.Node, dir string, files map[string]string) {
	tree := value(n, "target") == nil && value(n, "contents") == nil && value(n, "path") != nil
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		switch v := n.Content[i+1]; n.Content[i].Value {
		case "local":
			if tree {
				files[path.Join(dir, v.Value, "stub")] = "stub\n"
			} else {
				files[path.Join(dir, v.Value)] = "stub\n"
			}
		case "contents_local":
			files[path.Join(dir, v.Value)] = "[Service]\nNice=1\n"
		case "ssh_authorized_keys_local":
			for _, c := range v.Content {
				files[path.Join(dir, c.Value)] = "ssh-ed25519 " +
					"AAAAC3NzaC1lZDI1NTE5AAAAIGmzc5CzPp8LQGKOCtZgwQwPLBPQq3ZVtQ8yPHtOr2bR stub\n"
			}
		}
	}
	for _, c := range n.Content {
		stubs(c, dir, files)
	}
}

// poolBlock builds an object that is a pool's document.
func poolBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	file := home(n, text, "10-block.yaml")
	builds(t, withPool(path.Base(path.Dir(file)), map[string]string{file: text}))
}

// clusterBlock builds an object of cluster/, beside a pool that it can be about.
func clusterBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	pool := "worker"
	if word(n, "kind") == "MachineConfigPool" {
		pool = word(n, "metadata", "name")
	}
	files := map[string]string{"cluster/block.yaml": text, "pools/" + pool + "/10-stub.bu": stubDocument("10-stub.bu")}
	if value(n, "spec", "machineConfigPoolSelector") != nil {
		files["cluster/edge.yaml"] = edgePool
	}
	builds(t, files)
}

// edgePool is the pool that selectors of the documentation are about.
const edgePool = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: edge, labels: {tier: edge}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/edge: ""}}
`

// kustomizationBlock reads a kustomization strictly, and builds it with stubs for what it lists.
func kustomizationBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	strictly(t, n, &types.Kustomization{})
	file := home(n, text, "kustomization.yaml")
	files := map[string]string{file: text}
	for _, list := range []string{"resources", "components"} {
		for _, r := range contents(value(n, list)) {
			at := path.Join(path.Dir(file), r.Value)
			if path.Ext(r.Value) == "" {
				stub := path.Base(at) + "-stub.bu"
				files[path.Join(at, stub)] = stubDocument(at)
				kind := map[string]string{"components": "apiVersion: kustomize.config.k8s.io/v1alpha1\n" +
					"kind: Component\n"}[list]
				files[path.Join(at, "kustomization.yaml")] = kind + "resources: [" + stub + "]\n"
				continue
			}
			files[at] = stubDocument(at)
		}
	}
	builds(t, withPool(path.Base(path.Dir(file)), files))
}

func contents(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}

// stubDocument is a document that sets a file of its own.
func stubDocument(name string) string {
	return "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/stub/" + strings.ReplaceAll(name, "/",
		"-") + "\n      mode: 0644\n"
}

// withPool adds the MachineConfigPool that a custom pool needs, and a pool that lists what is in base/.
func withPool(pool string, files map[string]string) map[string]string {
	switch pool {
	case "base":
		files["pools/worker/kustomization.yaml"] = "resources: [../../base]\n"
	case "worker", "master":
	default:
		files["cluster/stub.yaml"] = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\n" +
			"metadata:\n  name: " + pool +
			"\nspec:\n  machineConfigSelector:\n    matchLabels:\n      " + roleLabel + ": " + pool +
			"\n  nodeSelector:\n    matchLabels:\n      node-role.kubernetes.io/" + pool + ": \"\"\n"
	}
	return files
}

// backstageBlock has the fields of a Resource: https://backstage.io/docs/features/software-catalog/descriptor-format
func backstageBlock(t *testing.T, _ block, n *yaml.Node, _ string) {
	var of struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name, Title, Description string
			Annotations              map[string]string
			Links                    []struct{ URL, Title string }
		} `json:"metadata"`
		Spec struct{ Type, Owner, System string } `json:"spec"`
	}
	strictly(t, n, &of)
	if problems := validation.IsDNS1123Label(of.Metadata.Name); len(problems) > 0 || of.Spec.Type == "" ||
		of.Spec.Owner == "" {
		t.Errorf("a Resource has a name, a type and an owner: %+v", of)
	}
}
