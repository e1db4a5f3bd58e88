package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// job is a job of GitLab CI.
type job struct {
	Image     string
	Script    []string
	After     []string `yaml:"after_script"`
	Variables map[string]string
	Rules     []struct{ If string }
}

// componentJobs returns the jobs of the component with the inputs of a user, as GitLab puts them in.
func componentJobs(t *testing.T, inputs map[string]string) map[string]job {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "templates", "review.yml"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(string(text), "\n---\n")
	if !ok {
		t.Fatal("the component has no header")
	}
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Description, Default string }
		}
	}
	if err := yaml.Unmarshal([]byte(head), &spec); err != nil {
		t.Fatal(err)
	}
	body = regexp.MustCompile(`\$\[\[ inputs\.(\w+) \]\]`).ReplaceAllStringFunc(body, func(e string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(e, "$[[ inputs."), " ]]")
		input, known := spec.Spec.Inputs[name]
		if !known || input.Description == "" {
			t.Errorf("the component has no input %s with a description", name)
		}
		if value, given := inputs[name]; given {
			return value
		}
		return input.Default
	})
	if strings.Contains(body, "$[[") {
		t.Errorf("an input is not replaced:\n%s", body)
	}
	jobs := map[string]job{}
	if err := yaml.Unmarshal([]byte(body), &jobs); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestTheComponentOfGitLab runs the scripts of the component in a checkout, with bunsen in PATH as in the image.
func TestTheComponentOfGitLab(t *testing.T) {
	bin, err := filepath.Abs(programs(t))
	if err != nil {
		t.Fatal(err)
	}
	jobs := componentJobs(t, map[string]string{"path": "site", "key": "prod", "nodes": "worker=40/4"})
	for name, j := range jobs {
		if !ciReference.MatchString(j.Image) || len(j.Rules) != 1 ||
			!strings.Contains(j.Rules[0].If, "merge_request_event") {
			t.Errorf("%s runs %q for %v", name, j.Image, j.Rules)
		}
	}
	work := t.TempDir()
	example := os.DirFS(filepath.Join(root, "examples", "quickstart"))
	if err := os.CopyFS(filepath.Join(work, "site"), example); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		cmd.Dir = work
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", ".")
	git("add", "-A")
	git("commit", "-q", "-m", "base")
	base := git("rev-parse", "HEAD")
	write(t, filepath.Join(work, "site/pools/worker/files/motd"), "Another message\n")
	git("commit", "-q", "-a", "-m", "change")
	script := func(j job, lines []string) string {
		cmd := exec.Command("sh", "-e", "-c", strings.Join(lines, "\n"))
		cmd.Dir = work
		cmd.Env = []string{
			"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "GITLAB_CI=true",
			"CI_MERGE_REQUEST_DIFF_BASE_SHA=" + base,
			"CI_API_V4_URL=http://127.0.0.1:1/api/v4", "CI_PROJECT_ID=7", "CI_MERGE_REQUEST_IID=3",
			"CI_MERGE_REQUEST_PROJECT_ID=7", "CI_COMMIT_SHA=" + git("rev-parse", "HEAD"), "CI_PROJECT_PATH=infra/os",
			"CI_MERGE_REQUEST_PROJECT_PATH=infra/os", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID=8",
		}
		for name, value := range j.Variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", lines, err, out)
		}
		return string(out)
	}
	validate, plan := jobs["bunsen-validate"], jobs["bunsen-plan"]
	if out := script(validate, validate.Script); !strings.HasSuffix(out, "valid\n") {
		t.Errorf("the job says %s", out)
	}
	script(validate, validate.After)
	for name, want := range map[string]string{"gl-code-quality-report.json": "[]\n", "bunsen.xml": `failures="0"`} {
		if text, err := os.ReadFile(filepath.Join(work, name)); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s has %s, %v", name, text, err)
		}
	}
	// The merge request comes from a fork, so there is no token, and the job prints its comment.
	out := script(plan, plan.Script)
	for _, want := range []string{"prod", "worker", "/etc/motd"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
}

// TestTheWorkflowsForGitHub has actionlint read the examples, and a workflow that uses each input of the action.
func TestTheWorkflowsForGitHub(t *testing.T) {
	lint, err := exec.Command("go", "tool", "-n", "actionlint").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := strings.TrimSpace(string(lint))
	examples, err := filepath.Glob(filepath.Join(root, "examples/ci/github/*.yml"))
	if err != nil || len(examples) < 3 {
		t.Fatalf("%q, %v", examples, err)
	}
	output(t, program, append([]string{"-shellcheck="}, examples...)...)
	raw, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := yaml.Unmarshal(raw, &m); err != nil || len(m.Inputs) == 0 {
		t.Fatalf("%d inputs, %v", len(m.Inputs), err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".github", "workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "action.yml"), string(raw))
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for input, fails := range map[string]bool{"": false, "            bas: x\n": true} {
		workflow := "on: pull_request\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n" +
			"      - uses: ./\n        with:\n"
		for name := range m.Inputs {
			workflow += "            " + name + ": x\n"
		}
		write(t, filepath.Join(dir, ".github", "workflows", "a.yml"), workflow+input)
		cmd := exec.Command(program, "-shellcheck=")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); (err != nil) != fails {
			t.Errorf("actionlint: %v\n%s", err, out)
		}
	}
}

// TestTheScriptsOfTheAction has shellcheck read them.
func TestTheScriptsOfTheAction(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("this machine has no shellcheck")
	}
	output(t, "shellcheck", filepath.Join(root, "action", "install.sh"), filepath.Join(root, "action", "run.sh"))
}

// TestTheHooksOfPreCommit reads the hooks as pre-commit does, and runs the one that needs no container.
func TestTheHooksOfPreCommit(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Name, Description, Entry, Language string
		PassFilenames                          bool `yaml:"pass_filenames"`
	}
	if err := yaml.Unmarshal(text, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%+v, %v", hooks, err)
	}
	for _, h := range hooks {
		compiles := h.Language != "system" && h.Language != "docker_image"
		if h.ID == "" || h.Name == "" || h.Description == "" || h.PassFilenames || compiles {
			t.Errorf("%+v", h)
		}
	}
	bin := programs(t)
	words := strings.Fields(hooks[0].Entry)
	cmd := exec.Command(filepath.Join(bin, words[0]), words[1:]...)
	cmd.Dir = filepath.Join(root, "examples", "quickstart")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "valid\n") {
		t.Errorf("%s: %v\n%s", hooks[0].Entry, err, out)
	}
}
