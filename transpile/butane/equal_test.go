package butane

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coreos/butane/config/common"
	cutil "github.com/coreos/butane/config/util"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"github.com/coreos/vcontext/validate"
	vyaml "github.com/coreos/vcontext/yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
	"gopkg.in/yaml.v3"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	transpilemessage "github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// locals are the files that documents of the tests take in.
var locals = map[string]string{
	"files/motd":      "hello\n",
	"files/keys":      "ssh-ed25519 CCCC three\n\nssh-ed25519 DDDD four\r\n",
	"files/more-keys": "ssh-ed25519 EEEE five",
	"files/a.service": "[Service]\nExecStart=/bin/true\n",
	"files/other.ign": `{"ignition": {"version": "3.0.0"}}`,
	"tree/a.conf":     "a\n",
	"tree/sub/b.conf": "b\n",
	"tree/sub/run":    "#!/bin/sh\n",
}

// sample is one body of a document under one dialect.
type sample struct {
	name    string
	dialect dialect
	in      Input
}

// samples puts every body of testdata under every dialect.
func samples(t *testing.T) []sample {
	t.Helper()
	root := t.TempDir()
	for name, contents := range locals {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(contents, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(file, []byte(contents), mode); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := txtar.ParseFile("testdata/documents.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []sample
	for _, d := range dialects {
		head := "variant: " + d.variant + "\nversion: " + d.version + "\n"
		for _, f := range archive.Files {
			own := head
			if d.variant == "openshift" && !strings.HasPrefix(string(f.Data), "metadata:") {
				own += "metadata:\n  name: x\n  labels:\n    machineconfiguration.openshift.io/role: worker\n"
			}
			source := own + string(f.Data)
			out = append(out, sample{
				name:    strings.TrimSuffix(f.Name, ".bu") + " in " + d.variant + " " + d.version,
				dialect: d,
				in: Input{
					Source: []byte(source), Origin: origin.Map{At: placesOf(source)}, Root: root,
					FS: os.DirFS(root),
				},
			})
		}
	}
	return out
}

// placesOf gives every key and every item of a document its line in `a.bu`.
func placesOf(source string) map[string]origin.Pos {
	at := map[string]origin.Pos{}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(source), &doc) == nil && len(doc.Content) > 0 {
		placesBelow(doc.Content[0], "$", origin.Pos{File: "a.bu", Line: 1}, at)
	}
	return at
}

func placesBelow(n *yaml.Node, here string, place origin.Pos, at map[string]origin.Pos) {
	at[here] = place
	for i, c := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			placesBelow(c, here+"."+strconv.Itoa(i), origin.Pos{File: "a.bu", Line: c.Line, Column: c.Column}, at)
		case i%2 == 1:
			k := n.Content[i-1]
			placesBelow(c, here+"."+k.Value, origin.Pos{File: "a.bu", Line: k.Line, Column: k.Column}, at)
		}
	}
}

// The package calls a dialect's method itself, to get the origins: configs and findings must equal those of Butane's
// own function.
func TestTranslateGivesAndSaysWhatButaneDoes(t *testing.T) {
	good := 0
	for _, s := range samples(t) {
		out, found := Translate(s.in)
		want := butanes(t, s)
		if want.refused {
			continue // by this package, before Butane's turn
		}
		want.says = slices.DeleteFunc(want.says, func(line string) bool {
			return slices.ContainsFunc(ownMessages, func(m string) bool {
				return strings.HasPrefix(line, "warning") && strings.HasSuffix(line, transpilemessage.Translate(m, ""))
			})
		})
		if diff := cmp.Diff(want.says, says(found), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: findings (-Butane +ours):\n%s", s.name, diff)
			continue
		}
		if origin.Fatal(found) {
			continue
		}
		good++
		raw, err := out.Config.IgnitionJSON()
		if err != nil {
			t.Fatal(err)
		}
		ours := canonical(t, raw)
		if strings.HasPrefix(s.name, "luks-new") {
			dropAdvertisements(ours) // Ignition's own step from 3.4 to 3.5 forgets them; ours does not
			dropAdvertisements(want.ignition)
		}
		if diff := cmp.Diff(want.ignition, ours); diff != "" {
			t.Errorf("%s: config (-Butane +ours):\n%s", s.name, diff)
		}
	}
	if good < 300 {
		t.Errorf("only %d samples are good: the documents test too little", good)
	}
}

// verdictOf is what Butane gives and says.
type verdictOf struct {
	refused  bool
	says     []string
	ignition any
}

func butanes(t *testing.T, s sample) verdictOf {
	t.Helper()
	own := &translator{in: s.in}
	if own.parse() && own.choose() {
		own.locals()
		own.checkKernelArguments()
	}
	if origin.Fatal(own.findings) {
		return verdictOf{refused: true}
	}
	cfg := s.dialect.config()
	if err := yaml.Unmarshal(s.in.Source, cfg); err != nil {
		return verdictOf{refused: true}
	}
	tree, err := vyaml.UnmarshalToContext(s.in.Source)
	if err != nil {
		t.Fatal(err)
	}
	unused := validate.ValidateCustom(cfg, "yaml", func(v reflect.Value, c path.ContextPath) report.Report {
		return ignvalidate.ValidateUnusedKeys(v, c, tree)
	})
	out := verdictOf{says: entries(s, unused)}
	if len(unused.Entries) > 0 && slices.ContainsFunc(unused.Entries, func(e report.Entry) bool {
		return strings.HasPrefix(e.Message, "unused key")
	}) {
		// the error says it
		out.says = slices.DeleteFunc(out.says, func(line string) bool { return strings.HasPrefix(line, "warning") })
		return out
	}
	final, rep, err := cutil.Translate(cfg, s.dialect.method, common.TranslateOptions{
		FilesDir:                  s.in.Root,
		NoResourceAutoCompression: true,
	})
	out.says = append(out.says, entries(s, rep)...)
	if err == nil {
		out.ignition, err = newest(t, final, s.dialect.variant)
		if err != nil { // of 3.6 only
			out.says = append(out.says, "error "+err.Error())
		}
	}
	slices.Sort(out.says)
	return out
}

// newest reads what Butane gave as Ignition itself reads older versions.
func newest(t *testing.T, final any, variant string) (any, error) {
	t.Helper()
	raw, err := json.Marshal(final)
	if err != nil {
		t.Fatal(err)
	}
	var mc struct {
		Spec struct{ Config json.RawMessage }
	}
	if json.Unmarshal(raw, &mc) == nil && mc.Spec.Config != nil {
		raw = mc.Spec.Config
	}
	raw = []byte(strings.Replace(string(raw), `"version":"3.6.0"`, `"version":"3.5.0"`, 1))
	cfg, rep, err := ign.ParseCompatibleVersion(raw)
	if err != nil {
		for _, e := range rep.Entries {
			if e.Kind.IsFatal() {
				return nil, &newer{e.Message}
			}
		}
		t.Fatal(err)
	}
	if variant != "flatcar" { // elsewhere they stand beside the Ignition
		cfg.KernelArguments.ShouldExist, cfg.KernelArguments.ShouldNotExist = nil, nil
	}
	if raw, err = json.Marshal(cfg); err != nil {
		t.Fatal(err)
	}
	return canonical(t, raw), nil
}

type newer struct{ message string }

func (n *newer) Error() string { return n.message }

// canonical drops empty objects, as our JSON has none.
func canonical(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	prune(v)
	return v
}

func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			prune(e)
			if m, ok := e.(map[string]any); ok && len(m) == 0 {
				delete(v, k)
			}
		}
	case []any:
		for _, e := range v {
			prune(e)
		}
	}
}

func dropAdvertisements(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "advertisement")
		for _, e := range v {
			dropAdvertisements(e)
		}
	case []any:
		for _, e := range v {
			dropAdvertisements(e)
		}
	}
}

func entries(s sample, rep report.Report) []string {
	var out []string
	doc, err := s.in.parse()
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range rep.Entries {
		here := documentPath(e.Context)
		at, _ := s.in.Origin.Find(here)
		kind, message := e.Kind.String(), transpilemessage.Translate(e.Message, textAt(doc, here))
		if strings.HasPrefix(message, "context tree does not match") {
			message = here[strings.LastIndexByte(here, '.')+1:] + " is empty: indent what belongs to it below it, or " +
				"remove it"
		}
		if key, unused := strings.CutPrefix(message, "unused key "); unused {
			kind, message = "error", s.dialect.variant+" "+s.dialect.version+" knows no key \""+key+"\" here"
		}
		out = append(out, kind+" "+at.String()+" "+message)
	}
	slices.Sort(out)
	return out
}

func says(found []origin.Finding) []string {
	var out []string
	for _, f := range found {
		kind := "error"
		if f.Warning {
			kind = "warning"
		}
		message, at := f.Message, f.At.String()+" "
		if f.Rule == "unknown-key" {
			message = message[:strings.Index(message, " here")+len(" here")]
		}
		if f.Rule == "ignition-version" {
			message, _, _ = strings.Cut(message, ": Ignition 3.6")
			at = ""
		}
		out = append(out, kind+" "+at+message)
	}
	slices.Sort(out)
	return out
}
