package review_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review/report"
)

// Who can read secrets, and what nobody can review, comes first in every form of a review.
func TestWhatNobodyCanReview(t *testing.T) {
	files, err := filepath.Glob("testdata/unread/*.txtar")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := compared(t, a)
		if !c.Changed() {
			t.Errorf("%s: it counts as no change", file)
		}
		raw, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if problems := readSchema(t).check(t, raw); len(problems) > 0 {
			t.Errorf("%s: the schema does not take it: %s", file, strings.Join(problems, "; "))
		}
		got := map[string]string{
			"want.txt": report.Text(c, report.Style{}), "want.md": report.Markdown(c, report.MarkdownOptions{}),
			"want.status": report.Summary(c) + "\n",
		}
		for i, f := range a.Files {
			text, ok := got[f.Name]
			if ok && *update {
				a.Files[i].Data = []byte(text)
			} else if diff := cmp.Diff(string(f.Data), text); ok && diff != "" {
				t.Errorf("%s: %s differs (-want +got):\n%s", file, f.Name, diff)
			}
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
