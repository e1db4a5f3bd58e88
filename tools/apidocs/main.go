package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}

// run writes the pages of the repository at root.
func run(root string) error {
	crds, err := filepath.Glob(filepath.Join(root, "config/crd/bunsen.dev_*.yaml"))
	if err != nil {
		return err
	}
	if len(crds) == 0 {
		return fmt.Errorf("%s has no config/crd/bunsen.dev_*.yaml", root)
	}
	dir := filepath.Join(root, "docs/api")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var index strings.Builder
	index.WriteString(indexHead)
	for _, file := range crds {
		d, err := readDefinition(file)
		if err != nil {
			return err
		}
		name := strings.ToLower(d.Spec.Names.Kind)
		example, err := os.ReadFile(filepath.Join(root, "tools/apidocs/examples", name+".yaml"))
		if err != nil {
			return fmt.Errorf("reading the example of %s: %w", d.Spec.Names.Kind, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(d.page(string(example))), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&index, "| [%s](%s.md) | %s |\n", d.Spec.Names.Kind, name, firstSentence(d.schema().Description))
	}
	index.WriteString(indexFoot)
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(index.String()), 0o644)
}

const indexHead = `# API reference

For authors of the objects of ` + "`bunsen.dev/v1alpha1`" + `. You get a page for each kind, with every field.
` + "`kubectl explain`" + ` prints the same facts. ` + "`make generate`" + ` writes these pages from the types.

| Kind | Purpose |
|---|---|
`

const indexFoot = `
A repository may also contain [SSHKeys](sshkeys.md). This kind is a document of the repository only,
so its page is not generated.

Bunsen uses four kinds of OpenShift without changes:

- MachineConfig, MachineConfigPool and MachineConfigNode of ` + "`machineconfiguration.openshift.io/v1`" + `
- MachineConfiguration of ` + "`operator.openshift.io/v1`" + `

` + "`kubectl explain machineconfigpool.spec`" + ` prints their fields.
`

// definition is the part of a CustomResourceDefinition that the pages show.
type definition struct {
	Spec struct {
		Names struct {
			Kind       string
			Plural     string
			ShortNames []string `yaml:"shortNames"`
		}
		Group    string
		Scope    string
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPI schema `yaml:"openAPIV3Schema"`
			}
		}
	}
}

func readDefinition(file string) (*definition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &definition{}
	if err := yaml.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(d.Spec.Versions) != 1 {
		return nil, fmt.Errorf("reading %s: a page shows one version, and there are %d", file, len(d.Spec.Versions))
	}
	return d, nil
}

func (d *definition) schema() schema { return d.Spec.Versions[0].Schema.OpenAPI }
