package vectors_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// load reads a file of vectors.
func load[T any](t *testing.T, file string) T {
	t.Helper()
	var v T
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	return v
}

// parse reads a spec that the vectors take for granted.
func parse(t *testing.T, spec mcfgv1.MachineConfigSpec) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exceptions are the cases in which we differ on purpose, with the reason.
type exceptions map[string]string

// differs reports a difference from the original: as a failure, or, where the table has the case, as a note. A case
// of the table that does not differ must leave it; see settle.
func (e exceptions) differs(t *testing.T, name string, seen map[string]bool, format string, args ...any) {
	t.Helper()
	if why, ok := e[name]; ok {
		seen[name] = true
		t.Logf("differs on purpose: %s", why)
		return
	}
	t.Errorf(format, args...)
}

// settle fails for exceptions that are none any more.
func (e exceptions) settle(t *testing.T, seen map[string]bool) {
	t.Helper()
	for name := range e {
		if !seen[name] {
			t.Errorf("the exception %q does not differ: take it out of the table", name)
		}
	}
}
