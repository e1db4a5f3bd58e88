package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/yaml"
)

// run returns errIncompatible after it has printed the changes.
var errIncompatible = errors.New("these changes break stored objects or clients of the last release. Undo them, or " +
	"add a version of the kind. " +
	"If a change breaks nothing that was released, describe it in CHANGELOG.md and run: go run -C " +
	"tools ./crds -update")

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crds", flag.ContinueOnError)
	root := flags.String("root", "..", "the repository's root")
	update := flags.Bool("update", false, "write the baseline: after a release, or to accept a change")
	if err := flags.Parse(args); err != nil {
		return err
	}
	now, err := readAll(filepath.Join(*root, "config", "crd"))
	if err != nil {
		return err
	}
	dir := filepath.Join(*root, "tools", "crds", "baseline")
	if *update {
		return write(dir, now)
	}
	before, err := readAll(dir)
	if err != nil {
		return err
	}
	changes, err := compare(before, now)
	if err != nil {
		return err
	}
	for _, change := range changes {
		fmt.Fprintln(out, change)
	}
	if len(changes) > 0 {
		return errIncompatible
	}
	return nil
}

// readAll returns the CRDs in a directory by name, without descriptions. readAll ignores files that are not CRDs.
func readAll(dir string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		crd.Annotations = nil
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].AdditionalPrinterColumns = nil
			if schema := crd.Spec.Versions[i].Schema; schema != nil {
				strip(schema.OpenAPIV3Schema)
			}
		}
		all[crd.Name] = crd
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("reading CRDs: %s has none: %w", dir, fs.ErrNotExist)
	}
	return all, nil
}

// strip removes the descriptions from a CRD, because a description makes no change incompatible.
func strip(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Description = ""
	for name, property := range s.Properties {
		strip(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		strip(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		strip(s.AdditionalProperties.Schema)
	}
}

// write stores CRDs in a directory, one file each.
func write(dir string, all map[string]*apiextensionsv1.CustomResourceDefinition) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing an old CRD: %w", err)
		}
	}
	for name, crd := range all {
		text, err := yaml.Marshal(crd)
		if err != nil {
			return fmt.Errorf("writing the CRD %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), text, 0o644); err != nil {
			return fmt.Errorf("writing the CRD %s: %w", name, err)
		}
	}
	return nil
}

// compare returns a line for each incompatible change, sorted. A CRD that is new is compatible.
func compare(before, now map[string]*apiextensionsv1.CustomResourceDefinition) ([]string, error) {
	// crdify has no rule for some changes, such as a change of a pattern or a CEL rule. Such a change is an error,
	// because it can make a stored object invalid.
	rules := &config.Config{
		Validations: []config.ValidationConfig{{
			Name: "enum", Enforcement: config.EnforcementPolicyError,
			Configuration: map[string]any{"additionPolicy": "Allow"},
		}},
		UnhandledEnforcement: config.EnforcementPolicyError, Conversion: config.ConversionPolicyNone,
	}
	run, err := runner.New(rules, runner.DefaultRegistry())
	if err != nil {
		return nil, fmt.Errorf("preparing the comparison: %w", err)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] == nil {
			out = append(out, name+": the kind was removed")
			continue
		}
		out = append(out, removedVersions(before[name], now[name])...)
		results := run.Run(before[name], now[name])
		out = append(out, lines(name, results.CRDValidation)...)
		for version, fields := range results.SameVersionValidation {
			for field, found := range fields {
				out = append(out, lines(strings.Join([]string{name, version, field}, " "), found)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// removedVersions returns the versions that the API server no longer serves.
func removedVersions(before, now *apiextensionsv1.CustomResourceDefinition) (out []string) {
	for _, version := range before.Spec.Versions {
		served := slices.ContainsFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name && v.Served
		})
		if version.Served && !served {
			out = append(out, fmt.Sprintf("%s: version %s is no longer served", before.Name, version.Name))
		}
	}
	return out
}

// lines returns a line for each error and each warning.
func lines(where string, results []validations.ComparisonResult) (out []string) {
	for _, r := range results {
		for _, problem := range slices.Concat(r.Errors, r.Warnings) {
			out = append(out, fmt.Sprintf("%s: %s", where, problem))
		}
	}
	return out
}
