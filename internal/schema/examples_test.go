package schema_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/internal/schema"
)

// compiled returns a schema for a validator, which finds the schemas that it refers to.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for _, n := range schema.Names() {
		node, err := schema.Get(n)
		if err != nil {
			t.Fatal(err)
		}
		text, err := node.JSON()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("file:///"+n+".json", doc); err != nil {
			t.Fatal(err)
		}
	}
	out, err := c.Compile("file:///" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func value(t *testing.T, text string) any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nameOf returns the schema of a document, or "" for a patch, a table or a file of another program.
func nameOf(file, text string) string {
	var head struct{ APIVersion, Kind, Variant, Version string }
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil || json.Unmarshal(raw, &head) != nil {
		return ""
	}
	switch {
	case strings.HasPrefix(filepath.Base(file), "kustomization."):
		return "kustomization"
	case head.Variant != "":
		return "butane"
	case schema.OfKind(head.APIVersion, head.Kind) != nil:
		return strings.ToLower(head.Kind)
	}
	return ""
}

// modeline is how a document names its schema. The address works wherever a reader copies the example to.
var modeline = regexp.MustCompile(`\n# yaml-language-server: \$schema=https://github\.com/bunsen-os/bunsen/releases/` +
	`latest/download/(\S+)\.json\n$`)

func TestTheExamplesAreValidByTheirSchemas(t *testing.T) {
	seen := map[string]int{}
	schemas := map[string]*jsonschema.Schema{}
	err := filepath.WalkDir("../../examples", func(file string, e fs.DirEntry, err error) error {
		if ext := filepath.Ext(file); err != nil || e.IsDir() || ext != ".bu" && ext != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for text := range strings.SplitSeq(string(raw), "\n---\n") {
			name := nameOf(file, text)
			if name == "" {
				continue
			}
			if schemas[name] == nil {
				schemas[name] = compiled(t, name)
			}
			seen[name]++
			if err := schemas[name].Validate(value(t, text)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if m := modeline.FindStringSubmatch(text); m == nil {
				if !strings.Contains(string(raw), "\n---\n") { // A file with several objects has no one schema.
					t.Errorf("%s: its last line does not name its schema", file)
				}
			} else if _, err := schema.Get(m[1]); err != nil || !strings.HasPrefix(m[1], name) {
				t.Errorf("%s: it names the schema %s: %v", file, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen["butane"] < 50 || seen["kustomization"] < 5 || seen["rolloutpolicy"] < 2 {
		t.Errorf("too few documents of the examples were found: %v", seen)
	}
	t.Log(seen)
}

func TestAnInvalidDocumentIsRefusedByItsSchema(t *testing.T) {
	const policy = "apiVersion: bunsen.dev/v1alpha1\nkind: RolloutPolicy\n"
	const fcos = "variant: fcos\nversion: 1.6.0\n"
	for sentence, c := range map[string]struct{ schema, text string }{
		"a misspelled key":            {"butane", fcos + "storage: {filess: []}\n"},
		"a version that is unknown":   {"butane", "variant: fcos\nversion: 9.9.9\n"},
		"no version":                  {"butane", "variant: fcos\n"},
		"a variant that is unknown":   {"butane", "variant: rhcos\nversion: 1.0.0\n"},
		"a file without a path":       {"butane", fcos + "storage: {files: [{mode: 420}]}\n"},
		"a key of a later version":    {"butane", "variant: fcos\nversion: 1.3.0\nkernel_arguments: {}\n"},
		"a mode that is text":         {"butane", fcos + "storage: {files: [{path: /a, mode: rw}]}\n"},
		"another dialect":             {"butane-fcos-1.6.0", "variant: flatcar\nversion: 1.1.0\n"},
		"a field that a kind lacks":   {"rolloutpolicy", policy + "spec: {canari: {}}\n"},
		"a text in place of a number": {"rolloutpolicy", policy + "spec: {batches: many}\n"},
		"another kind":                {"gitsource", policy + "spec: {}\n"},
		"a misspelled key of SSHKeys": {
			"sshkeys", "apiVersion: bunsen.dev/v1alpha1\nkind: SSHKeys\nspec: {users: [{nam: a}]}\n",
		},
		"a field that runs a program": {"kustomization", "generators: [a.yaml]\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if compiled(t, c.schema).Validate(value(t, c.text)) == nil {
				t.Error("the schema allows it")
			}
		})
	}
}
