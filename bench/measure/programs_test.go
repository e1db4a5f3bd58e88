package measure_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// `make bench` runs every program, and each has a test that runs it to its end at a tiny size.
func TestEveryProgramIsRun(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^BENCHES = (.*)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no list BENCHES")
	}
	listed := strings.Fields(string(m[1]))
	slices.Sort(listed)
	mains, err := filepath.Glob("../*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, file := range mains {
		dir := filepath.Dir(file)
		programs = append(programs, filepath.Base(dir))
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Errorf("bench/%s has no test: %v", filepath.Base(dir), err)
		}
	}
	if slices.Sort(programs); !slices.Equal(programs, listed) {
		t.Errorf("make bench runs %q, and there are %q", listed, programs)
	}
}
