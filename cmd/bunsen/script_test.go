package main

import (
	"errors"
	"flag"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the files that scripts compare with")

// TestMain lets a script run bunsen as a command of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bunsen": main})
}

// TestScripts runs testdata/*.txtar: what people type, what they read, and the exit code. Beside testscript's commands
// there is `exits CODE command…`.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			for _, v := range [][2]string{
				{"GIT_CONFIG_NOSYSTEM", "1"},
				{"GIT_CONFIG_GLOBAL", "/dev/null"},
				{"KUBECONFIG", ""},
				{"GIT_AUTHOR_NAME", "Ada"},
				{"GIT_AUTHOR_EMAIL", "ada@example.com"},
				{"GIT_AUTHOR_DATE", "2026-01-02T12:00:00Z"},
				{"GIT_COMMITTER_NAME", "Ada"},
				{"GIT_COMMITTER_EMAIL", "ada@example.com"},
				{"GIT_COMMITTER_DATE", "2026-01-02T12:00:00Z"},
			} {
				env.Setenv(v[0], v[1])
			}
			return nil
		},
	})
}

// exits runs a command and fails unless it ends with this very code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
