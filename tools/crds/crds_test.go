package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const base = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              description: what it is
              properties:
                size: {type: integer, maximum: 10}
                color: {type: string, enum: [red, green]}
                name: {type: string}
`

// TestChanges has a change of a CRD, and the line that reports it; none for a compatible change.
func TestChanges(t *testing.T) {
	for sentence, tc := range map[string]struct{ old, new, want string }{
		"nothing changes":              {"", "", ""},
		"a description changes":        {"what it is", "what it does", ""},
		"a field is added":             {"                name:", "                more: {type: string}\n                name:", ""},
		"an enum value is added":       {"red, green", "red, green, blue", ""},
		"a limit is raised":            {"maximum: 10", "maximum: 20", ""},
		"a field is removed":           {"                name: {type: string}\n", "", "things.example.com: removed field : v1.^.spec.name"},
		"a type changes":               {"name: {type: string}", "name: {type: integer}", "things.example.com v1 ^.spec.name: type changed"},
		"a field becomes required":     {"description: what it is", "required: [name]", "things.example.com v1 ^.spec: new required fields: [name]"},
		"a limit is lowered":           {"maximum: 10", "maximum: 5", "things.example.com v1 ^.spec.size: maximum"},
		"an enum value is removed":     {"red, green", "red", "things.example.com v1 ^.spec.color: allowed enum values removed"},
		"a pattern is added":           {"name: {type: string}", "name: {type: string, pattern: ^a}", "things.example.com v1 ^.spec.name: "},
		"a rule is added":              {"description: what it is", "x-kubernetes-validations: [{rule: has(self.name)}]", "things.example.com v1 ^.spec: "},
		"the version is not served":    {"served: true", "served: false", "things.example.com: version v1 is no longer served"},
		"the scope changes":            {"scope: Cluster", "scope: Namespaced", "things.example.com: scope"},
		"the kind has another name":    {"{name: things.example.com}", "{name: other.example.com}", "things.example.com: the kind was removed"},
		"a version has another name":   {"- name: v1", "- name: v2", "things.example.com: version v1 is no longer served"},
		"a list becomes a map of keys": {"name: {type: string}", "name: {type: string, x-kubernetes-preserve-unknown-fields: true}", "things.example.com v1 ^.spec.name: "},
	} {
		t.Run(sentence, func(t *testing.T) {
			root := t.TempDir()
			changed := strings.Replace(base, tc.old, tc.new, 1)
			for path, text := range map[string]string{
				"tools/crds/baseline/things.yaml": base,
				"config/crd/things.yaml":          changed, "config/crd/kustomization.yaml": "kind: Kustomization\n",
			} {
				file := filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			err := run([]string{"-root", root}, &out)
			if (err != nil) != (tc.want != "") || !strings.Contains(out.String(), tc.want) || tc.want == "" &&
				out.Len() > 0 {
				t.Errorf("%v, printed\n%swant %q", err, out.String(), tc.want)
			}
			if err := run([]string{"-root", root, "-update"}, &out); err != nil {
				t.Fatal(err)
			}
			if err := run([]string{"-root", root}, &out); err != nil {
				t.Errorf("after -update: %v", err)
			}
		})
	}
}
