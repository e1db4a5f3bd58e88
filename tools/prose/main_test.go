package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestWordsAreFoundWhereTheyAreRead checks which texts of a repository are read, with the line of each word.
func TestWordsAreFoundWhereTheyAreRead(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"a page":                 {"docs/a.md", "One.\nA roll-out begins.\n", "docs/a.md:2: \"roll-out\": write rollout\n"},
		"another form of a word": {"a.md", "Roll-outs.\n", "a.md:1: \"Roll-outs\": write rollout\n"},
		"a longer word":          {"a.md", "The shelfmark, and an off-shelf part.\n", ""},
		"a path":                 {"a.md", "See docs/shelf/a.md.\n", ""},
		"a message":              {"a.go", "package a\n\nvar a = \"the shelf is full\"\n", "a.go:3: \"shelf\": write cache\n"},
		"a line of help":         {"a.go", "package a\n\nvar a = `Use:\n  the shelf`\n", "a.go:4: \"shelf\": write cache\n"},
		"a name in code":         {"a.go", "package a\n\nvar shelf = \"x\" // the shelf\n", ""},
		"a test":                 {"a_test.go", "package a\n\nvar a = \"the shelf is full\"\n", ""},
		"a manifest":             {"config/a.yaml", "# a shelf\n", "config/a.yaml:1: \"shelf\": write cache\n"},
		"data of a test":         {"a/testdata/a.md", "A shelf.\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			n, err := check(&got, fstest.MapFS{c.file: {Data: []byte(c.text)}}, parseWords(wordList))
			if err != nil || got.String() != c.want || n != strings.Count(c.want, "\n") {
				t.Errorf("found %d, %v:\n%swant:\n%s", n, err, got.String(), c.want)
			}
		})
	}
}
