package cluster_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/transpile/cluster"
)

var update = flag.Bool("update", false, "write the compact schemas anew, from config/crd")

// checked are the keywords of a structural schema that the package knows.
var checked = []string{
	"properties", "additionalProperties", "items", "required", "enum", "minimum", "maximum", "minLength", "maxLength",
	"minItems", "maxItems",
	"minProperties", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
}

// ignored are the keywords that strict decoding checks, that check nothing, or that only an API server evaluates.
var ignored = []string{
	"type", "format", "description", "default", "nullable", "anyOf", "x-kubernetes-int-or-string",
	"x-kubernetes-map-type",
	"x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}

func TestTheSchemasAreThoseOfTheCRDs(t *testing.T) {
	for kind, file := range map[string]string{
		"rolloutpolicy": "bunsen.dev_rolloutpolicies", "driftpolicy": "bunsen.dev_driftpolicies",
		"machineconfigpool": "openshift_machineconfigpools", "machineconfiguration": "openshift_machineconfigurations",
		"pinnedimageset": "openshift_pinnedimagesets",
	} {
		raw, err := os.ReadFile("../../config/crd/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct {
							Properties map[string]any `json:"properties"`
						} `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil || len(crd.Spec.Versions) != 1 {
			t.Fatalf("%s: %v, %d versions", file, err, len(crd.Spec.Versions))
		}
		want, err := json.MarshalIndent(compact(t, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]), "",
			" ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		if *update {
			if err := os.WriteFile(kind+".json", want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := os.ReadFile(kind + ".json"); err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s.json is not the schema of %s any more (%v): run go test ./transpile/cluster -update", kind,
				file, err)
		}
	}
}

// compact keeps the keywords that are checked. A keyword that nobody knows fails the test.
func compact(t *testing.T, v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	known := map[string]bool{}
	for _, word := range ignored {
		known[word] = true
	}
	for _, word := range checked {
		known[word] = true
		of, has := fields[word]
		switch {
		case !has:
		case word == "properties":
			all := map[string]any{}
			for name, property := range of.(map[string]any) {
				all[name] = compact(t, property)
			}
			out[word] = all
		case word == "required": // the API server fills in defaults before it validates
			properties, _ := fields["properties"].(map[string]any)
			out[word] = slices.DeleteFunc(slices.Clone(of.([]any)), func(name any) bool {
				property, _ := properties[name.(string)].(map[string]any)
				return property["default"] != nil
			})
		default:
			out[word] = compact(t, of)
		}
	}
	for word := range fields {
		if !known[word] {
			t.Errorf("a schema has the keyword %q, which is neither checked nor ignored", word)
		}
	}
	return out
}

func TestCheckFindsWhatASchemaDoesNotAllow(t *testing.T) {
	for _, c := range []struct{ sentence, kind, spec, want string }{
		{"a good policy has no problem", "RolloutPolicy", `{maxUnavailable: 1, gates: [{name: a}]}`, ""},
		{"a kind without a schema has no problem", "Secret", `{a: b}`, ""},
		{"an object without a spec has no problem", "RolloutPolicy", ``, ""},
		{"null is absent", "RolloutPolicy", `{pools: null}`, ""},
		{"a value that is not of an enum", "RolloutPolicy", `{failures: {action: Explode}}`, `spec.failures.action: "Explode" is not allowed; use one of "Halt", "Revert"`},
		{"a number below the minimum", "RolloutPolicy", `{failures: {after: 0}}`, `spec.failures.after: 0 is too small; the minimum is 1`},
		{"a missing field", "RolloutPolicy", `{batches: [{soak: 1m}]}`, `spec.batches[0]: upTo is missing, and it is required; add it`},
		{"a text that does not match", "RolloutPolicy", `{batches: [{upTo: 1, soak: soon}]}`, `spec.batches[0].soak: "soon" does not match the pattern`},
		{"too many items", "DriftPolicy", `{rules: [` + strings.Repeat(`{path: "**", action: Ignore},`, 201) + `]}`, `spec.rules: it has 201 items; at most`},
		{"a number above the maximum", "DriftPolicy", `{rules: [], repair: {burst: 1000}}`, `spec.repair.burst: 1000 is too large; the maximum is 100`},
		{"an item of a set twice", "RolloutPolicy", `{pools: [a, b, a]}`, `spec.pools[2]: it repeats item 0; remove one of them`},
		{"too short a text", "DriftPolicy", `{rules: [{path: "", action: Ignore}]}`, `spec.rules[0].path: it has 0 characters; at least 1 are required`},
		{"an item of a map twice", "MachineConfigPool", `{pinnedImageSets: [{name: a}, {name: a}]}`, `spec.pinnedImageSets[1]: it repeats item 0`},
		{"an enum of another project", "MachineConfiguration", `{logLevel: Loud}`, `spec.logLevel: "Loud" is not allowed; use one of "", "Normal", "Debug", "Trace", "TraceAll"`},
	} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(c.spec), &object); err != nil {
			t.Fatal(err)
		}
		of := map[string]any{}
		if c.spec != "" {
			of["spec"] = object
		}
		problems, err := cluster.CheckSchema(c.kind, of)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.Path+": "+p.Text)
		}
		got := strings.Join(lines, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || c.want != "" && len(lines) != 1 {
			t.Errorf("%s:\n%s\nwant %s", c.sentence, got, c.want)
		}
	}
}
