package machineconfig

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// NodeTablePath is the path of the only file in a MachineConfig that stores a table. No node gets the file.
const NodeTablePath = "/etc/bunsen/nodes.json"

// NodeTable has the documents and facts of the nodes of one pool.
type NodeTable struct {
	// Pool is the pool of the nodes.
	Pool string `json:"pool"`
	// Shared are the documents that use facts, by name. Each node with facts gets them.
	Shared []NodeDocument `json:"shared,omitempty"`
	// Nodes are the nodes by name.
	Nodes map[string]NodeFacts `json:"nodes"`
}

// NodeFacts is one node of a table.
type NodeFacts struct {
	// Facts are the values of the node's row by name; nil if the node has no row.
	Facts map[string]string `json:"facts,omitempty"`
	// Documents are the documents of this node alone, in the order of merging.
	Documents []NodeDocument `json:"documents,omitempty"`
}

// NodeDocument is one document as the spec of a MachineConfig.
type NodeDocument struct {
	// Name is the name that a MachineConfig of this document would have.
	Name string `json:"name"`
	// File is the repository's file that declares the document, relative to the source's path; empty in tables of
	// earlier versions.
	File string `json:"file,omitempty"`
	// Spec may have references to facts, such as ${node.address}.
	Spec mcfgv1.MachineConfigSpec `json:"spec"`
}

// FactName returns the name of the MachineConfig that stores the table of a pool.
func FactName(pool string) string { return "99-" + pool + "-generated-nodes" }

// PoolOf returns the pool whose table a MachineConfig stores; empty for any other MachineConfig.
func PoolOf(mc *mcfgv1.MachineConfig) string { return mc.Labels[v1alpha1.NodeTableLabel] }

// MachineConfig returns the MachineConfig that stores the table. It has the role of the pool, so the selector of the
// pool selects it.
func (t NodeTable) MachineConfig() (*mcfgv1.MachineConfig, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("writing the table of nodes of pool %s: %w", t.Pool, err)
	}
	source := "data:application/json;base64," + base64.StdEncoding.EncodeToString(text)
	config := Config{HasIgnition: true}
	config.Ignition.Ignition.Version = Version
	config.Ignition.Storage.Files = []ign.File{{
		Node:          ign.Node{Path: NodeTablePath},
		FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
	}}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return nil, fmt.Errorf("writing the table of nodes of pool %s: %w", t.Pool, err)
	}
	return &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: FactName(t.Pool), Labels: map[string]string{
			v1alpha1.RoleLabel:      t.Pool,
			v1alpha1.NodeTableLabel: t.Pool,
		}},
		Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	}, nil
}

// ReadNodeTable returns the table that a MachineConfig of a pool stores.
func ReadNodeTable(pool string, config Config) (NodeTable, error) {
	fail := func(err error) (NodeTable, error) {
		return NodeTable{}, fmt.Errorf("reading the table of nodes of pool %s: %w", pool, err)
	}
	files := config.Ignition.Storage.Files
	if len(files) != 1 || files[0].Path != NodeTablePath {
		return fail(fmt.Errorf("its only file must be %s: correct it, or remove the label %s", NodeTablePath,
			v1alpha1.NodeTableLabel))
	}
	text, err := Contents(files[0].Contents)
	if err != nil {
		return fail(err)
	}
	var t NodeTable
	if err := json.Unmarshal(text, &t); err != nil {
		return fail(err)
	}
	if t.Pool != pool {
		return fail(fmt.Errorf("it is the table of pool %q", t.Pool))
	}
	return t, nil
}

// For returns the documents of one node with its facts in place, in the order of merging. The error joins the problems
// of all documents.
func (t NodeTable) For(name string) ([]NodeDocument, error) {
	node := t.Nodes[name]
	documents := node.Documents
	if node.Facts != nil {
		documents = slices.Concat(t.Shared, node.Documents)
	}
	facts := maps.Clone(node.Facts)
	if facts == nil {
		facts = map[string]string{}
	}
	facts[NameFact] = name
	out := make([]NodeDocument, len(documents))
	var bad []error
	for i, d := range documents {
		spec, err := ExpandFacts(d.Spec, facts)
		if err != nil {
			bad = append(bad, fmt.Errorf("document %s of node %s: %w", d.Name, name, err))
		}
		out[i] = NodeDocument{Name: d.Name, File: d.File, Spec: spec}
	}
	return out, errors.Join(bad...)
}

// Names returns the names of the nodes, sorted.
func (t NodeTable) Names() []string { return slices.Sorted(maps.Keys(t.Nodes)) }

// RefersToSecrets reports whether a document of the table may refer to secrets.
func (t NodeTable) RefersToSecrets() bool {
	refers := func(d NodeDocument) bool {
		config, err := Parse(d.Spec)
		if err != nil {
			return false // Merging reports it.
		}
		files, err := SecretFilesOf(config)
		return err != nil || len(files) > 0
	}
	for _, node := range t.Nodes {
		if slices.ContainsFunc(node.Documents, refers) {
			return true
		}
	}
	return slices.ContainsFunc(t.Shared, refers)
}
