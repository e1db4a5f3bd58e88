package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bunsen-os/bunsen/tools/linked"
)

const root = "../.."

func modules(t *testing.T, b binary) []linked.Module {
	t.Helper()
	all, err := modulesOf(t.Context(), root, b, linked.Platform{OS: "linux", Arch: arch()})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func reviewedJudge(t *testing.T) *judge {
	t.Helper()
	j, err := newJudge(reviewed)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// programs returns the directory of the programs that a release is made of.
func programs(t *testing.T) string {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	dir := os.Getenv("BUNSEN_BIN")
	if dir == "" {
		t.Skip("BUNSEN_BIN does not name the directory of the binaries")
	}
	return dir
}

func TestEveryLinkedModuleHasAnAllowedLicence(t *testing.T) {
	if err := checkLicences(t.Context(), root); err != nil {
		t.Error(err)
	}
}

// TestTheFilesListWhatTheBinariesHave holds both files against what the linker wrote into each binary that is built.
func TestTheFilesListWhatTheBinariesHave(t *testing.T) {
	dir := programs(t)
	j := reviewedJudge(t)
	for _, b := range binaries {
		t.Run(b.Name, func(t *testing.T) {
			info, err := buildinfo.ReadFile(filepath.Join(dir, b.Name))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{linked.Go + " " + info.GoVersion: true}
			for _, d := range info.Deps {
				if d.Replace != nil {
					d = d.Replace
				}
				want[d.Path+" "+d.Version] = true
			}
			all := modules(t, b)
			text, err := j.notices(b.Name, "v1", "own", all)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := j.bill(b.Name, "v1", "", all)
			if err != nil {
				t.Fatal(err)
			}
			var bom cdx.BOM
			if err := json.Unmarshal(raw, &bom); err != nil {
				t.Fatal(err)
			}
			inBill := map[string]bool{}
			for _, c := range *bom.Components {
				inBill[c.Name+" "+c.Version] = true
				if c.Licenses == nil || len(*c.Licenses) == 0 {
					t.Errorf("the bill of materials has no licence of %s", c.Name)
				}
			}
			for m := range want {
				if !strings.Contains(text, "\n"+m+" (") {
					t.Errorf("the notices lack %s", m)
				}
				if !inBill[m] {
					t.Errorf("the bill of materials lacks %s", m)
				}
			}
			for m := range inBill {
				if !want[m] {
					t.Errorf("the bill of materials has %s, which the binary has not", m)
				}
			}
		})
	}
}

// TestOldModulesAreExplained compares what the binaries link of old with the table of the page about libraries.
func TestOldModulesAreExplained(t *testing.T) {
	const old = "2022-07-01" // a date that does not move: a module does not fail by growing older
	linkedOld := map[string]bool{}
	for _, b := range binaries {
		if b.Module != "." {
			continue
		}
		for _, m := range modules(t, b) {
			if m.Time != "" && m.Time < old {
				linkedOld[m.Path] = true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/adr/0006-libraries.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "\n### Old modules\n")
	if !ok || len(linkedOld) < 10 {
		t.Fatalf("there is no table, or only %d old modules", len(linkedOld))
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "/") && !strings.Contains(cells[1], ".") {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			if name = strings.TrimSpace(name); !linkedOld[name] {
				t.Errorf("the table explains %s, which no binary links, or which is newer", name)
			}
			delete(linkedOld, name)
		}
	}
	for name := range linkedOld {
		t.Errorf("%s is from before %s: replace it, or explain it in docs/adr/0006-libraries.md", name, old)
	}
}

func TestNoticesHaveEveryText(t *testing.T) {
	j := reviewedJudge(t)
	for _, b := range binaries {
		all := modules(t, b)
		text, err := j.notices(b.Name, "v1", "the project's licence", all)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if len(m.Files)+len(j.substitute(m, all)) == 0 {
				t.Errorf("%s: %s has no text", b.Name, m.Path)
			}
			for _, f := range m.Files {
				if !strings.Contains(text, strings.TrimRight(f.Text, "\n")) {
					t.Errorf("%s: the notices lack %s of %s", b.Name, f.Name, m.Path)
				}
			}
		}
	}
}

func TestFilesAreReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	var written [2]map[string][]byte
	for i := range written {
		dir := t.TempDir()
		if err := writeFiles(t.Context(), root, dir, "v1"); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		written[i] = map[string][]byte{}
		for _, e := range entries {
			if written[i][e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(written[0]) != 2*len(binaries) {
		t.Errorf("%d files for %d binaries", len(written[0]), len(binaries))
	}
	for name, first := range written[0] {
		if !bytes.Equal(first, written[1][name]) {
			t.Errorf("%s differs between two runs", name)
		}
		if bytes.Contains(first, []byte(`"timestamp"`)) {
			t.Errorf("%s has a time", name)
		}
	}
}

// TestTheBillIsValidByItsSchema uses the schemas that cyclonedx-go has.
func TestTheBillIsValidByItsSchema(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for _, name := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schema.json"} {
		file := strings.Replace(name, "jsf-0.82.schema.json", "jsf-0.82.schemax.json", 1)
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+name, value); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	j := reviewedJudge(t)
	raw, err := j.bill("bunsen", "v1", "1700000000", modules(t, binaries[0]))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(`"timestamp": "2023-11-14T22:13:20Z"`)) {
		t.Error("the time is not that of SOURCE_DATE_EPOCH")
	}
	for name, test := range map[string]struct {
		text  []byte
		valid bool
	}{
		"as written":                    {raw, true},
		"with an unknown licence":       {bytes.Replace(raw, []byte(`"id": "MIT"`), []byte(`"id": "MINE"`), 1), false},
		"with a component without name": {bytes.Replace(raw, []byte(`"name": "std"`), []byte(`"nome": "std"`), 1), false},
	} {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
