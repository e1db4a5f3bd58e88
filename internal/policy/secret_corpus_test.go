package policy_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// hiddenMark stands in a masked text for one secret value.
const hiddenMark = "(hidden)"

// secretSample is one file of testdata/secrets. README.md in that folder describes the format.
type secretSample struct {
	name  string // the kind and the file name, such as "positive/netrc-one-line"
	about string // the sentence on top
	files []sampleFile
}

// sampleFile is one file of a sample, before and after masking.
// In a negative sample, masked equals content.
type sampleFile struct {
	path    string
	content string
	masked  string
}

// maskedLine is one line of a file that holds at least one secret value.
type maskedLine struct {
	number int // counts from 1
	values []string
}

// TestSecretSamplesAreWellFormed reads every sample and checks the rules of README.md.
func TestSecretSamplesAreWellFormed(t *testing.T) {
	least := map[string]int{"positive": 160, "negative": 320}
	names, contents := map[string]string{}, map[string]string{}
	for kind, want := range least {
		samples := readSecretSamples(t, kind)
		if len(samples) < want {
			t.Errorf("testdata/secrets/%s has %d samples, want at least %d", kind, len(samples), want)
		}
		for _, s := range samples {
			if other, ok := names[filepath.Base(s.name)]; ok {
				t.Errorf("%s and %s have the same name", other, s.name)
			}
			names[filepath.Base(s.name)] = s.name
			for _, f := range s.files {
				if other, ok := contents[f.content]; ok {
					t.Errorf("%s and %s have the same content", other, s.name)
				}
				contents[f.content] = s.name
			}
		}
		t.Logf("%s: %d samples, %d masked lines", kind, len(samples), countMaskedLines(samples))
	}
}

// TestBrokenSecretSamplesAreRejected checks that parseSecretSample can fail.
func TestBrokenSecretSamplesAreRejected(t *testing.T) {
	tests := []struct{ name, kind, text, want string }{
		{"no sentence", "negative", "-- /a --\nx\n", "must begin with one sentence"},
		{"two lines on top", "negative", "One.\nTwo.\n-- /a --\nx\n", "must begin with one sentence"},
		{"no file", "negative", "A sentence.\n", "has no file"},
		{"an empty file", "negative", "A sentence.\n-- /a --\n", `"/a" is empty`},
		{"the same path twice", "negative", "A sentence.\n-- /a --\nx\n-- /a --\ny\n", `"/a" twice`},
		{"a masked text in a negative sample", "negative", "A sentence.\n-- /a --\nx\n-- masked /a --\n(hidden)\n", "masks nothing"},
		{"no masked text", "positive", "A sentence.\n-- /a --\nx\n", `no masked text of "/a"`},
		{"a masked text of no file", "positive", "A sentence.\n-- /a --\nx\n-- masked /b --\n(hidden)\n", `masked text of "/b"`},
		{"nothing masked", "positive", "A sentence.\n-- /a --\nx\n-- masked /a --\nx\n", "masks no line"},
		{"a line less", "positive", "A sentence.\n-- /a --\nx\ny\n-- masked /a --\n(hidden)\n", "has 1 lines, want 2"},
		{"another difference", "positive", "A sentence.\n-- /a --\nk: v\n-- masked /a --\nK: (hidden)\n", "/a:1"},
		{"an empty value", "positive", "A sentence.\n-- /a --\nk: \n-- masked /a --\nk: (hidden)\n", "/a:1"},
		{"the mark in the content", "positive", "A sentence.\n-- /a --\nk: (hidden)\n-- masked /a --\nk: (hidden)\n", "holds the mark"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseSecretSample(tt.kind, "s", txtar.Parse([]byte(tt.text)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// readSecretSamples reads all samples of a kind, which is "positive" or "negative", in order of their names.
func readSecretSamples(t *testing.T, kind string) []secretSample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "secrets", kind, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var samples []secretSample
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSecretSample(kind, strings.TrimSuffix(filepath.Base(file), ".txtar"), archive)
		if err != nil {
			t.Errorf("reading sample %q: %v", file, err)
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

// parseSecretSample reads one sample and checks it. It fails where the sample breaks a rule of README.md.
func parseSecretSample(kind, name string, archive *txtar.Archive) (secretSample, error) {
	s := secretSample{name: kind + "/" + name, about: strings.TrimSpace(string(archive.Comment))}
	if !regexp.MustCompile(`^[A-Z][^\n]+\.$`).MatchString(s.about) {
		return s, fmt.Errorf("the sample must begin with one sentence on one line, got %q", s.about)
	}
	masked := map[string]string{}
	seen := map[string]bool{}
	for _, f := range archive.Files {
		if path, ok := strings.CutPrefix(f.Name, "masked "); ok {
			masked[path] = string(f.Data)
			continue
		}
		if seen[f.Name] {
			return s, fmt.Errorf("the sample holds %q twice", f.Name)
		}
		if strings.TrimSpace(string(f.Data)) == "" {
			return s, fmt.Errorf("%q is empty", f.Name)
		}
		seen[f.Name] = true
		s.files = append(s.files, sampleFile{path: f.Name, content: string(f.Data), masked: string(f.Data)})
	}
	if len(s.files) == 0 {
		return s, fmt.Errorf("the sample has no file")
	}
	if kind == "negative" {
		if len(masked) > 0 {
			return s, fmt.Errorf("a negative sample masks nothing, got %d masked texts", len(masked))
		}
		return s, nil
	}
	return s, s.setMasked(masked)
}

// setMasked gives each file of a positive sample its masked text and checks that only secret values differ.
func (s secretSample) setMasked(masked map[string]string) error {
	for path := range masked {
		if !hasSamplePath(s.files, path) {
			return fmt.Errorf("there is a masked text of %q, which the sample does not hold", path)
		}
	}
	lines := 0
	for i := range s.files {
		f := &s.files[i]
		text, ok := masked[f.path]
		if !ok {
			return fmt.Errorf("there is no masked text of %q", f.path)
		}
		f.masked = text
		found, err := f.maskedLines()
		if err != nil {
			return err
		}
		lines += len(found)
	}
	if lines == 0 {
		return fmt.Errorf("a positive sample masks at least one line, this one masks no line")
	}
	return nil
}

// maskedLines returns the lines that hold secret values, in order, with the values that the marks stand for.
// It fails where the masked text differs from the content in anything else.
func (f sampleFile) maskedLines() ([]maskedLine, error) {
	if strings.Contains(f.content, hiddenMark) {
		return nil, fmt.Errorf("the content of %q holds the mark %s", f.path, hiddenMark)
	}
	before, after := strings.Split(f.content, "\n"), strings.Split(f.masked, "\n")
	if len(before) != len(after) {
		return nil, fmt.Errorf("the masked text of %q has %d lines, want %d", f.path, len(after)-1, len(before)-1)
	}
	var lines []maskedLine
	for i, line := range after {
		if line == before[i] {
			continue
		}
		// Every mark stands for at least one character, everything else stands for itself.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), regexp.QuoteMeta(hiddenMark), "(.+?)")
		match := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(before[i])
		if len(match) < 2 {
			return nil, fmt.Errorf("%s:%d: %q is not a masked form of %q", f.path, i+1, line, before[i])
		}
		lines = append(lines, maskedLine{number: i + 1, values: match[1:]})
	}
	return lines, nil
}

func hasSamplePath(files []sampleFile, path string) bool {
	for _, f := range files {
		if f.path == path {
			return true
		}
	}
	return false
}

func countMaskedLines(samples []secretSample) int {
	n := 0
	for _, s := range samples {
		for _, f := range s.files {
			lines, _ := f.maskedLines() // parseSecretSample has checked the error
			n += len(lines)
		}
	}
	return n
}
