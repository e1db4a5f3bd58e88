package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
)

// languages are all that blocks are in, and what is done with each. A new one fails until somebody decides.
var languages = map[string]func(*testing.T, block){
	"yaml":    checkYAML,
	"yml":     checkYAML,
	"butane":  checkYAML,
	"json":    checkJSON,
	"toml":    checkMirrors,
	"sh":      nil, // by shell_test.go
	"console": nil,
	"text":    nil, // what programs print: the tests of who prints it write the page
	"diff":    nil,
	"lua":     nil, // by test/editor, in Neovim
	"elisp":   nil, // no Emacs is on the machines of the tests
	"":        nil, // layouts of directories
}

// Whoever copies a block of the documentation gets what it says.
func TestEveryBlockIsWhatItSays(t *testing.T) {
	seen := map[string]int{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			check, known := languages[b.lang]
			if !known {
				t.Errorf("%s: a block in %q: say in languages what is to be done with it", b, b.lang)
				continue
			}
			seen[b.lang]++
			if check != nil {
				t.Run(b.String(), func(t *testing.T) { check(t, b) })
			}
		}
	}
	if seen["yaml"] < 10 || seen["json"] < 2 || seen["sh"] < 5 {
		t.Errorf("only %v blocks: are pages read rightly?", seen)
	}
}

// checkMirrors reads a block as registries.conf.
func checkMirrors(t *testing.T, b block) {
	if err := download.ParseMirrors(download.MirrorFile{Name: b.String(), Text: []byte(b.text)}).Err(); err != nil {
		t.Error(err)
	}
}

// checkYAML decides by content what a block is, and builds it.
func checkYAML(t *testing.T, b block) {
	var roots []*yaml.Node
	for dec := yaml.NewDecoder(strings.NewReader(b.text)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not YAML: %v", err)
		}
		roots = append(roots, doc.Content[0])
	}
	if len(roots) == 0 {
		t.Fatal("the block is empty")
	}
	for _, root := range roots {
		for _, k := range yamlKinds {
			if k.is(b, root) {
				text := b.text
				if len(roots) > 1 {
					text = encoded(t, root)
				}
				k.check(t, b, root, text)
				return
			}
		}
		t.Errorf("nobody knows what this is: add a kind to yamlKinds\n%s", b.text)
	}
}

func encoded(t *testing.T, n *yaml.Node) string {
	t.Helper()
	out, err := yaml.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// checkJSON does the same for JSON.
func checkJSON(t *testing.T, b block) {
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.text), &v); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	switch {
	case strings.Contains(string(v["ignition"]), `"merge"`):
		pointerBlock(t, b.text)
	case v["ignition"] != nil:
		builds(t, map[string]string{"pools/worker/10-block.ign": b.text})
	case v["pools"] != nil && v["version"] != nil:
		dec := json.NewDecoder(strings.NewReader(b.text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&review.Comparison{}); err != nil {
			t.Errorf("not a comparison: %v", err)
		}
	default:
		t.Errorf("nobody knows what this is: add a case\n%s", b.text)
	}
}

// pointerBlock is what a machine is handed at birth: no part of a repository, but Ignition all the same.
func pointerBlock(t *testing.T, text string) {
	t.Helper()
	_, report, err := ign.ParseCompatibleVersion([]byte(strings.ReplaceAll(text, "…", "")))
	if err != nil || len(report.Entries) > 0 {
		t.Errorf("not Ignition: %v\n%s", err, report.String())
	}
}

// builds makes a repository of the files, and wants `bunsen validate` to find nothing to say.
func builds(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	result, rendering, _ := new(review.Renderings).Render(source.Tree{Root: dir, FS: os.DirFS(dir)}, nil)
	if report := review.Check(result, rendering).Report; len(report) > 0 {
		t.Errorf("bunsen validate says:\n%s", report)
	}
	if rendering.Err == nil && !result.Report.Fatal() && len(rendering.Pools) == 0 {
		t.Error("it renders no pool")
	}
}

// strictly decodes YAML as a type, and takes no key that the type does not have.
func strictly(t *testing.T, n *yaml.Node, into any) {
	t.Helper()
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Errorf("not a %s: %v", strings.TrimPrefix(fmt.Sprintf("%T", into), "*"), err)
	}
}
