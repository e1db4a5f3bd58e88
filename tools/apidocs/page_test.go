package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAFieldIsShownWithItsFacts reads a schema with each kind of fact and looks for the row that shows it.
func TestAFieldIsShownWithItsFacts(t *testing.T) {
	const text = `
description: WidgetSpec is a part.
required: [name]
x-kubernetes-validations: [{rule: "true", message: give either size or colour}]
properties:
  name: {type: string, description: "Name | of\nthe widget.", minLength: 1, maxLength: 63}
  size: {x-kubernetes-int-or-string: true, default: 2}
  soak: {type: string, pattern: '^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$'}
  colour: {type: string, enum: [Red, Blue]}
  parts: {type: array, maxItems: 3, items: {type: object, properties: {at: {type: string, format: date-time}}}}
  labels: {type: object, additionalProperties: {type: string}}
`
	var s schema
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	section(&b, "spec", s, true)
	for _, want := range []string{
		"- give either size or colour\n",
		"| `name` | string | required | Name \\| of the widget. | not empty; at most 63 characters |",
		"| `size` | integer or string | `2` |  | – |",
		"| `soak` | duration | – |",
		"one of `Red`, `Blue` |",
		"| `parts` | list of [object](#specparts) | – |  | at most 3 items |",
		"| `labels` | map of string to string |",
		"## spec.parts\n",
		"| `at` | time |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, b.String())
		}
	}
}

// TestThePagesAreCurrent compares docs/api with what the CRDs give.
func TestThePagesAreCurrent(t *testing.T) {
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	root := t.TempDir()
	for _, dir := range []string{"config/crd", "tools/apidocs/examples"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadDir(filepath.Join(root, "docs/api"))
	if err != nil || len(pages) < 6 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, p := range pages {
		want, err := os.ReadFile(filepath.Join(root, "docs/api", p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../../docs/api", p.Name())); err != nil ||
			string(got) != string(want) {
			t.Errorf("docs/api/%s is not current: run make generate (%v)", p.Name(), err)
		}
	}
}
