package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff")

// findings of all shapes: with and without a place, and with texts that want to be commands.
var findings = report.Findings{
	Directory: "clusters/prod", Version: "1.2.3",
	Entries: transpile.Report{
		{Severity: transpile.Fatal, Rule: "no-pools", Message: "there is no directory pools/ here"},
		{Severity: transpile.Warning, Rule: "unused-file", Message: "not read", File: "pools/worker/a b,c:%d.bu"},
		{
			Severity: transpile.Fatal, Rule: "unknown-key", Message: "knows no key \"mod\"\n::error::injected % here",
			File: "pools/worker/10-motd.bu", Line: 7, Column: 5,
		},
		{
			Severity: transpile.Fatal, Rule: "unknown-key", Message: "knows no key \"mod\"\n::error::injected % here",
			File: "pools/worker/10-motd.bu", Line: 9,
		},
	},
}

var valid = report.Findings{
	Entries: transpile.Report{{
		Severity: transpile.Warning, Rule: "unused-file", Message: "not read",
		File: "pools/worker/x.txt",
	}},
	Pools: []report.PoolFindings{
		{Pool: "master", Rendered: "rendered-master-1", Documents: 1},
		{Pool: "worker", Rendered: "rendered-worker-2", Documents: 3},
	},
}

func TestEachFormat(t *testing.T) {
	for _, format := range report.Formats {
		for name, f := range map[string]report.Findings{"invalid": findings, "valid": valid} {
			t.Run(string(format)+" of a repository that is "+name, func(t *testing.T) {
				got, err := f.Write(format)
				if err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+"."+string(format))
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), got); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
			})
		}
	}
}

// TestTheSARIFIsValidByItsSchema holds what is written against the schema of the standard:
// testdata/sarif-schema-2.1.0.json is a copy of the one that OASIS publishes.
func TestTheSARIFIsValidByItsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(value)
	}
	for name, f := range map[string]report.Findings{"findings": findings, "no findings": {}} {
		text, err := f.Write(report.SARIF)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	wrong, err := findings.Write(report.SARIF)
	if err != nil {
		t.Fatal(err)
	}
	for good, bad := range map[string]string{
		`"level": "error"`: `"level": "fatal"`, `"ruleIndex"`: `"ruleindex"`,
		`"startLine": 7`: `"startLine": 0`,
	} {
		if text := strings.Replace(wrong, good, bad, 1); text == wrong || validate(text) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

func TestAMessageIsNeverACommandOfItsOwn(t *testing.T) {
	text, err := findings.Write(report.GitHub)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines([]byte(text)) {
		if n := strings.Count(string(line), "::"); !bytes.HasPrefix(line, []byte("::")) || n < 2 {
			t.Errorf("not a command: %s", line)
		}
	}
	if got := strings.Count(text, "\n"); got != len(findings.Entries) {
		t.Errorf("%d lines for %d findings", got, len(findings.Entries))
	}
}

func TestAnUnknownFormatIsRefusedByName(t *testing.T) {
	if _, err := findings.Write("xml"); err == nil || !strings.Contains(err.Error(), "xml") ||
		!strings.Contains(err.Error(), "sarif") {
		t.Errorf("got %v", err)
	}
}
