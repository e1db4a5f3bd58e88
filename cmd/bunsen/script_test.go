package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"
)

var update = flag.Bool("update", false, "rewrite the files that scripts compare with")

// TestMain lets a script run bunsen as a command of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bunsen": main})
}

// TestScripts runs testdata/*.txtar: what people type, what they read, and the exit code. Beside testscript's commands
// there are `exits CODE command…`; `pull KIND [fork]`, which begins a job of a pull request on a service of that kind;
// `told`, which prints what the service was told; `registry`, which starts an OCI registry; `login`, which stores its
// credentials; and `followed`, which reads an artifact of it.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata", "")
}

// TestScriptsWithStoredResults runs them again, each with what the scripts before stored: a stored result changes no
// word.
func TestScriptsWithStoredResults(t *testing.T) {
	if *update {
		t.Skip("TestScripts writes the files")
	}
	cache := t.TempDir()
	t.Cleanup(func() { // after all scripts
		stored, err := filepath.Glob(filepath.Join(cache, "bunsen", "results", "*"))
		if err != nil || len(stored) == 0 {
			t.Errorf("the scripts stored nothing: %v", err)
		}
	})
	runScripts(t, "testdata", cache)
}

// TestCases runs testdata/cases/*.txtar: mistakes that people reported of configs, tools and repositories like these,
// each with what Bunsen must say of it. A line with an address is where one was reported.
func TestCases(t *testing.T) { runScripts(t, "testdata/cases", "") }

// runScripts gives the scripts a directory for stored results; "" for none.
func runScripts(t *testing.T, dir, cache string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir: dir, UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "pull": pull, "head": head, "told": told,
			"registry": startRegistry, "login": login, "followed": followed,
		},
		Setup: func(env *testscript.Env) error {
			for _, v := range [][2]string{
				{"GIT_CONFIG_NOSYSTEM", "1"},
				{"GIT_CONFIG_GLOBAL", "/dev/null"},
				{"KUBECONFIG", ""},
				{"XDG_CACHE_HOME", cmp.Or(cache, "none")}, // a relative path is no directory for results
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

// pull starts a service with one pull request, and sets the environment of a job of it. The job of a fork may only
// read.
func pull(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: pull github|gitlab|gitea [fork]")
	}
	fork := len(args) > 1 && args[1] == "fork"
	p := &forgetest.Pull{Kind: forge.Kind(args[0]), Self: "bunsen-bot", ReadOnly: fork, Head: commitOf(ts, "HEAD")}
	server := httptest.NewServer(p)
	ts.Defer(server.Close)
	t := p.Target(server.URL)
	env := map[string]string{
		"BUNSEN_TOKEN": t.Token, "GITHUB_ACTIONS": "", "GITLAB_CI": "", "GITEA_ACTIONS": "",
		"GITHUB_EVENT_PATH": writeEvent(ts, p),
	}
	switch t.Kind {
	case forge.GitLab:
		env["GITLAB_CI"], env["CI_API_V4_URL"], env["CI_PROJECT_ID"], env["CI_MERGE_REQUEST_IID"],
			env["CI_COMMIT_SHA"] = "true", t.API, t.Project, strconv.Itoa(t.Number), t.Head
		env["GITHUB_EVENT_PATH"] = ""
	case forge.Gitea:
		env["GITEA_ACTIONS"], env["GITHUB_API_URL"], env["GITHUB_REPOSITORY"] = "true", t.API, t.Project
	default:
		env["GITHUB_ACTIONS"], env["GITHUB_API_URL"], env["GITHUB_REPOSITORY"] = "true", t.API, t.Project
	}
	for k, v := range env {
		ts.Setenv(k, v)
	}
	ts.Setenv("HEAD", p.Head)
	pulls.Store(ts, p)
}

// head makes a revision the last commit of the pull request, as a push does.
func head(ts *testscript.TestScript, neg bool, args []string) {
	v, _ := pulls.Load(ts)
	p, ok := v.(*forgetest.Pull)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: head REVISION, after pull")
	}
	p.Head = commitOf(ts, args[0])
	writeEvent(ts, p)
	ts.Setenv("HEAD", p.Head)
	if ts.Getenv("GITLAB_CI") != "" {
		ts.Setenv("CI_COMMIT_SHA", p.Head)
	}
}

func commitOf(ts *testscript.TestScript, revision string) string {
	out, err := exec.Command("git", "-C", ts.MkAbs("."), "rev-parse", revision).Output()
	ts.Check(err)
	return strings.TrimSpace(string(out))
}

// writeEvent writes what starts a job for the pull request. That of one that may only read is of a fork.
func writeEvent(ts *testscript.TestScript, p *forgetest.Pull) (file string) {
	source, file := forgetest.Project, filepath.Join(ts.Getenv("WORK"), "event.json")
	if p.ReadOnly {
		source = "mallory/os-config"
	}
	ts.Check(os.WriteFile(file,
		fmt.Appendf(nil,
			`{"pull_request":{"number":%d,"head":{"sha":%q,"repo":{"full_name":%q}},"base":{"sha":"","repo":{"full_name":%q}}}}`,
			forgetest.Number, p.Head, source, forgetest.Project), 0o600))
	return file
}

// pulls are the services of the scripts that run.
var pulls sync.Map

// told writes the comments and statuses of the script's service to the file told.
func told(ts *testscript.TestScript, _ bool, _ []string) {
	v, _ := pulls.Load(ts)
	p, ok := v.(*forgetest.Pull)
	if !ok {
		ts.Fatalf("there is no pull request: begin with pull")
	}
	var b strings.Builder
	for _, s := range p.Statuses {
		fmt.Fprintf(&b, "status %s %s: %s\n", s.Context, s.State, s.Description)
	}
	for _, c := range p.Comments {
		fmt.Fprintf(&b, "comment of %s:\n%s", c.Author, c.Body)
	}
	ts.Check(os.WriteFile(ts.MkAbs("told"), []byte(b.String()), 0o600))
}
