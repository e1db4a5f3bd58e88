package once

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Read reads a config from a user: Ignition 3.0 to 3.5 in JSON, or one MachineConfig in YAML or JSON. An Ignition
// config has no name, so Read uses a hash of its bytes. So the same config always has the same name. The error has
// every problem, with file:line:column if the place is known.
func Read(file string, text []byte) (mcfgv1.MachineConfig, error) {
	doc, err := parse(file, text)
	if err != nil {
		return mcfgv1.MachineConfig{}, err
	}
	r := reader{file: file, top: doc}
	switch kind := doc.at("kind"); {
	case doc.at("variant") != nil:
		return mcfgv1.MachineConfig{}, r.problem(doc.at("variant"), "it is a Butane document: transpile it first, "+
			"for example with butane --strict, or with bunsen build")
	case kind != nil && kind.Value == "MachineConfig":
		return r.machineConfig(text)
	case kind != nil:
		return mcfgv1.MachineConfig{}, r.problem(kind, fmt.Sprintf("kind %q is neither a MachineConfig nor Ignition",
			kind.Value))
	case doc.at("ignition") != nil:
		return r.ignition(text)
	}
	return mcfgv1.MachineConfig{}, r.problem(doc, "it is neither Ignition (no key ignition) nor a MachineConfig (no "+
		"key kind)")
}

// node is one place in a document, with its line. YAML includes JSON.
type node struct{ *yamlv3.Node }

func parse(file string, text []byte) (*node, error) {
	dec := yamlv3.NewDecoder(bytes.NewReader(text))
	var doc, more yamlv3.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: it is empty", file)
		}
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	top := &node{doc.Content[0]}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is more than one document in it: a machine has one config", file)
	}
	if top.Kind != yamlv3.MappingNode {
		return nil, fmt.Errorf("%s:%d:%d: it is no object", file, top.Line, top.Column)
	}
	return top, nil
}

// at follows keys and indexes as far as they exist. at returns nil if the first one does not exist.
func (n *node) at(steps ...any) *node {
	for i, step := range steps {
		next := n.child(step)
		switch {
		case next == nil && i == 0:
			return nil
		case next == nil:
			return n
		}
		n = next
	}
	return n
}

func (n *node) child(step any) *node {
	if n.Kind == yamlv3.AliasNode {
		n = &node{n.Alias}
	}
	switch step := step.(type) {
	case int:
		if n.Kind == yamlv3.SequenceNode && step < len(n.Content) {
			return &node{n.Content[step]}
		}
	case string:
		for i := 0; n.Kind == yamlv3.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return &node{n.Content[i+1]}
			}
		}
	}
	return nil
}

// reader reads one document.
type reader struct {
	file string
	top  *node
}

func (r reader) problem(at *node, what string) error {
	if at == nil {
		return fmt.Errorf("%s: %s", r.file, what)
	}
	return fmt.Errorf("%s:%d:%d: %s", r.file, at.Line, at.Column, what)
}

// ignition wraps an Ignition config into a MachineConfig.
func (r reader) ignition(text []byte) (mcfgv1.MachineConfig, error) {
	raw := text
	if !json.Valid(text) {
		var err error
		if raw, err = yaml.YAMLToJSON(text); err != nil {
			return mcfgv1.MachineConfig{}, fmt.Errorf("%s: %w", r.file, err)
		}
	}
	var mc mcfgv1.MachineConfig
	mc.Name = "ignition-" + string(host.DigestOf(raw))[:12]
	mc.Spec.Config.Raw = raw
	return mc, r.check(mc, r.top)
}

// machineConfig reads a MachineConfig strictly: an unknown key is an error.
func (r reader) machineConfig(text []byte) (mcfgv1.MachineConfig, error) {
	var mc mcfgv1.MachineConfig
	var bad []error
	if version := r.top.at("apiVersion"); version == nil || version.Value != mcfgv1.GroupVersion.String() {
		bad = append(bad, r.problem(version, "apiVersion has to be "+mcfgv1.GroupVersion.String()))
	}
	if err := yaml.UnmarshalStrict(text, &mc); err != nil {
		return mc, errors.Join(append(bad, fmt.Errorf("%s: %w", r.file, err))...)
	}
	if mc.Name == "" {
		bad = append(bad, r.problem(r.top.at("metadata"), "metadata.name is missing"))
	}
	return mc, errors.Join(append(bad, r.check(mc, r.top.at("spec", "config")))...)
}

// check returns the problems of a config. The parameter inline is the place of the inline Ignition config.
func (r reader) check(mc mcfgv1.MachineConfig, inline *node) error {
	c, err := machineconfig.Parse(mc.Spec)
	if err == nil {
		var bad []error
		for _, problem := range machineconfig.Check(c) {
			bad = append(bad, fmt.Errorf("%s: %w", r.file, problem))
		}
		return errors.Join(bad...)
	}
	if located := r.locate(mc.Spec.Config.Raw, inline); located != nil {
		return located
	}
	return r.problem(inline, err.Error())
}

// locate parses the config again with Ignition's parser, and returns the paths of the config's problems; nil if it
// finds none.
func (r reader) locate(raw []byte, inline *node) error {
	if inline == nil || !json.Valid(raw) {
		return nil
	}
	_, report, _ := ign.ParseCompatibleVersion(raw)
	var bad []error
	for _, e := range report.Entries {
		if !e.Kind.IsFatal() || e.Context.Len() == 0 {
			continue
		}
		at := inline.at(e.Context.Path...)
		bad = append(bad, r.problem(at, strings.TrimPrefix(e.Context.String(), "$.")+": "+e.Message))
	}
	return errors.Join(bad...)
}
