package kinds

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// NodeFactsFile is the name of the table in the directory of a pool.
const NodeFactsFile = "nodes.yaml"

// NodeFactsRule is the rule of findings about a table.
const NodeFactsRule = "node-facts"

// maxRows is the most nodes of a table.
const maxRows = 10_000

// FactRow is what a table says about one node.
type FactRow struct {
	// Node is the name of the node.
	Node string
	// At is the position of the row.
	At origin.Pos
	// Cells are the facts of the node, in the order of the file.
	Cells []FactCell
}

// FactCell is one fact of one node.
type FactCell struct {
	// Fact is the name of the fact, and Value its value.
	Fact, Value string
	// At is the position of the fact.
	At origin.Pos
}

// Facts returns the values of a row by the name of the fact. It is never nil.
func (r FactRow) Facts() map[string]string {
	out := make(map[string]string, len(r.Cells))
	for _, c := range r.Cells {
		out[c.Fact] = c.Value
	}
	return out
}

// ReadNodeFacts reads a table. It maps each node to its facts:
//
//	worker-1: {address: 192.0.2.11/24, serial: S4EVNX0R}
//
// The boolean is false for a file that is an object, such as a MachineConfig, and no table.
func ReadNodeFacts(file string, src []byte) ([]FactRow, bool, []origin.Finding) {
	text := documents.YAMLText{File: file, Src: src}
	root, found := text.Parse()
	if root == nil {
		return nil, true, found
	}
	if documents.Scalar(root, "kind") != "" && documents.Scalar(root, "apiVersion") != "" {
		return nil, false, nil
	}
	r := reader{text: text}
	if root.Kind != yaml.MappingNode {
		r.errorf(root, "a table maps the name of each node to its facts, such as worker-1: {address: 192.0.2.11}")
		return nil, true, r.List
	}
	var rows []FactRow
	for i := 0; i+1 < len(root.Content); i += 2 {
		rows = append(rows, r.row(root.Content[i], root.Content[i+1]))
	}
	if len(rows) > maxRows {
		r.errorf(root, "the table has %d nodes, and at most %d are allowed: split the pool", len(rows), maxRows)
	}
	return rows, true, r.List
}

// reader collects the findings of a table.
type reader struct {
	origin.Findings
	text documents.YAMLText
}

func (r *reader) errorf(at *yaml.Node, format string, args ...any) {
	r.Errorf(r.text.Pos(at), NodeFactsRule, format, args...)
}

func (r *reader) row(name, facts *yaml.Node) FactRow {
	row := FactRow{Node: name.Value, At: r.text.Pos(name)}
	if bad := validation.IsDNS1123Subdomain(name.Value); len(bad) > 0 {
		r.errorf(name, "%s is no name of a node: %s", safetext.Quote(name.Value), strings.Join(bad, "; "))
	}
	if facts.Kind != yaml.MappingNode {
		r.errorf(facts, "the facts of node %s are not a mapping: write them as {address: 192.0.2.11}",
			safetext.OneLine(name.Value))
		return row
	}
	for i := 0; i+1 < len(facts.Content); i += 2 {
		k, v := facts.Content[i], facts.Content[i+1]
		if bad := machineconfig.CheckFactName(k.Value); bad != "" {
			r.errorf(k, "%s is no name of a fact: %s", safetext.Quote(k.Value), bad)
			continue
		}
		if v.Kind != yaml.ScalarNode {
			r.errorf(v, "the fact %s of node %s is a list or a mapping: a fact is one line of text", k.Value,
				safetext.OneLine(name.Value))
			continue
		}
		value := v.Value
		if v.Tag == "!!null" {
			value = ""
		}
		if bad := machineconfig.CheckFactValue(value); bad != "" {
			r.errorf(v, "the fact %s of node %s: %s", k.Value, safetext.OneLine(name.Value), bad)
			continue
		}
		row.Cells = append(row.Cells, FactCell{k.Value, value, r.text.Pos(k)})
	}
	return row
}

// maxOwn is the most files in directories of nodes that the origin of a table names.
const maxOwn = 100

// NodeFactsFiles returns the files that a table was built from, in lexical order: the table, the files of its
// documents, and the files that were read in directories of nodes. It names the parent directory dir in place of many
// files in directories of nodes, because an annotation contains the list.
func NodeFactsFiles(table, dir string, read, ofDocuments []origin.File) []origin.File {
	var shared, own []origin.File
	for _, f := range slices.Concat(read, ofDocuments) {
		switch {
		case strings.HasPrefix(f.Path, dir+"/"):
			own = append(own, f)
		case f.Path == table || slices.Contains(ofDocuments, f):
			shared = append(shared, f)
		}
	}
	own = inOrder(own)
	if len(own) > maxOwn {
		digest := sha256.New()
		for _, f := range own {
			fmt.Fprintf(digest, "%q %q\n", f.Path, f.Blob)
		}
		own = []origin.File{{Path: path.Clean(dir), Blob: hex.EncodeToString(digest.Sum(nil))}}
	}
	return inOrder(slices.Concat(shared, own))
}

// inOrder sorts files by their paths, and removes repeated ones.
func inOrder(files []origin.File) []origin.File {
	slices.SortFunc(files, func(x, y origin.File) int { return strings.Compare(x.Path, y.Path) })
	return slices.Compact(files)
}

// NodeFactsProblems returns what Ignition, Bunsen or every node would refuse in a document.
func NodeFactsProblems(d machineconfig.NodeDocument) []string {
	config, err := machineconfig.Parse(d.Spec)
	if err != nil {
		return strings.Split(err.Error(), "\n")
	}
	var out []string
	for _, p := range slices.Concat(machineconfig.Check(config), machineconfig.CheckImages(config)) {
		out = append(out, p.Error())
	}
	if _, err := machineconfig.SecretFilesOf(config); err != nil {
		out = append(out, strings.Split(err.Error(), "\n")...)
	}
	if len(out) == 0 {
		for _, r := range disruption.Invalid(config) {
			out = append(out, r.Field+": "+r.Why)
		}
	}
	return out
}

// CheckTemplates returns an error if a document has templates with facts, although no table or directory of nodes gives
// them values.
func CheckTemplates(spec mcfgv1.MachineConfigSpec) error {
	if !bytes.Contains(spec.Config.Raw, []byte("bunsen.template")) {
		return nil
	}
	config, err := machineconfig.Parse(spec)
	if err != nil {
		return nil // The validation of the document reports this error.
	}
	_, err = machineconfig.SecretFiles(config)
	return err
}

// CheckImages is machineconfig.CheckImages for a document whose facts have no values yet: it leaves out the images that
// use a fact. Problems checks them with the facts of each node.
func CheckImages(spec mcfgv1.MachineConfigSpec) machineconfig.Problems {
	return checkImages(spec, func(image string) bool { return !strings.Contains(image, machineconfig.ContentFact) })
}

// CheckPlainImages checks the images that CheckImages leaves out, for a document that gets no facts.
func CheckPlainImages(spec mcfgv1.MachineConfigSpec) error {
	return checkImages(spec, func(image string) bool {
		return strings.Contains(image, machineconfig.ContentFact)
	}).Err()
}

func checkImages(spec mcfgv1.MachineConfigSpec, which func(image string) bool) machineconfig.Problems {
	var c machineconfig.Config
	if which(spec.OSImageURL) {
		c.OSImageURL = spec.OSImageURL
	}
	if which(spec.BaseOSExtensionsContainerImage) {
		c.ExtensionsImage = spec.BaseOSExtensionsContainerImage
	}
	return machineconfig.CheckImages(c)
}
