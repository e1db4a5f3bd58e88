package review_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review"

	"github.com/bunsen-os/bunsen/internal/review/report"
)

// docs is where the project's documents are.
const docs = "../../docs"

// documented are the changes that the documents show, with what is said about their commits.
var documented = []struct{ name, hash, subject string }{
	{"ntp", "4f1c2ab90d3e5f60718293a4b5c6d7e8f9012345", "chrony: use the site's time servers"},
	{"kubelet", "9e07d2c11b2c3d4e5f60718293a4b5c6d7e8f901", "gpu: more open files, IOMMU in pass-through mode"},
	{"key", "c3a8815e2b3c4d5e6f708192a3b4c5d6e7f80912", "keys: add Bob"},
}

// knownNodes is what the documents' examples assume of the nodes.
var knownNodes = review.Facts{Pools: map[string]review.PoolFacts{
	"master": {Nodes: 3, MaxUnavailable: 1}, "worker": {Nodes: 40, MaxUnavailable: 4},
	"gpu": {Nodes: 8, MaxUnavailable: 2},
}}

const mainline = "a81f03c7d2e3f405162738495a6b7c8d9e0f1a2b"

func example(t *testing.T, name, hash, subject string) review.Comparison {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata/docs", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	base := side(t, a, "base")
	head := side(t, a, "head")
	base.Name, base.Commit = mainline, &review.Commit{Hash: mainline}
	head.Name, head.Commit = hash, &review.Commit{
		Hash: hash, Subject: subject, Author: "Alice <alice@example.com>",
		Time: "2026-03-02T09:14:00Z", Parents: []string{mainline},
	}
	return review.Compare(base, head).WithFacts(knownNodes)
}

// between replaces, or compares, what a document has between the comments `<!-- begin NAME -->` and `<!-- end NAME
// -->`.
func between(t *testing.T, file, name, want string) {
	t.Helper()
	file = filepath.Join(docs, file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- begin "+name+" -->\n"), []byte("<!-- end "+name+" -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	got, after, closed := bytes.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part %s", file, name)
	}
	if !*update {
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("%s: part %s differs, -update rewrites it (-document +made):\n%s", file, name, diff)
		}
		return
	}
	page = bytes.Join([][]byte{before, begin, []byte(want), end, after}, nil)
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTheDocumentsShowWhatIsPrinted keeps the examples of docs/review.md and docs/review-json.md.
func TestTheDocumentsShowWhatIsPrinted(t *testing.T) {
	for _, d := range documented {
		c := example(t, d.name, d.hash, d.subject)
		between(t, "review.md", d.name, "\n"+report.Markdown(c, report.MarkdownOptions{Key: "prod"})+"\n")
		if d.name != "kubelet" {
			continue
		}
		between(t, "review.md", "text", "```text\n"+report.Text(c, report.Style{})+"```\n")
		var raw bytes.Buffer
		enc := json.NewEncoder(&raw)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
		between(t, "review-json.md", "example", "```json\n"+raw.String()+"```\n")
	}
}

// TestTheDocumentNamesTheAssumptions: every number that the estimate rests on stands in docs/review.md.
func TestTheDocumentNamesTheAssumptions(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| What | Which nodes | At least | At most |\n|---|---|---|---|\n")
	for _, a := range review.Assumptions() {
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", a.What, a.Of, a.Min, a.Max)
	}
	between(t, "review.md", "assumptions", rows.String())
}

// TestTheSchemaTakesWhatIsPrinted holds docs/review.schema.json against every comparison of the tests.
func TestTheSchemaTakesWhatIsPrinted(t *testing.T) {
	s := readSchema(t)
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	all := map[string]review.Comparison{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = compared(t, a)
	}
	for _, d := range documented {
		all[d.name] = example(t, d.name, d.hash, d.subject)
	}
	for name, c := range all {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range s.check(t, raw) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	for _, bad := range []string{
		`{}`, `{"version":"2","base":"","head":"","pools":[]}`,
		`{"version":"1","base":"","head":"","pools":[{"pool":"a"}]}`,
		`{"version":"1","base":"","head":"","pools":[],"more":1}`,
	} {
		if len(s.check(t, []byte(bad))) == 0 {
			t.Errorf("the schema takes %s", bad)
		}
	}
}

// TestEveryFieldIsDocumented: what the schema has, docs/review-json.md explains in a table's row, and nothing else.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "review-json.md"))
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, m[1])
	}
	if diff := cmp.Diff(readSchema(t).fields(""), explained); diff != "" {
		t.Errorf("docs/review.schema.json has (-), docs/review-json.md explains (+):\n%s", diff)
	}
}
