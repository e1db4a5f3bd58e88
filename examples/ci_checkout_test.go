package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestForgejoChecksOutTheCommit runs the first step of the workflow against a repository whose pull request has a newer
// commit.
func TestForgejoChecksOutTheCommit(t *testing.T) {
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	server, work := t.TempDir(), t.TempDir()
	repo := filepath.Join(server, "infra", "os.git")
	git(server, "init", "-q", "-b", "main", repo)
	git(repo, "commit", "-q", "--allow-empty", "-m", "base")
	base := git(repo, "rev-parse", "HEAD")
	git(repo, "checkout", "-q", "--detach")
	git(repo, "commit", "-q", "--allow-empty", "-m", "change")
	change := git(repo, "rev-parse", "HEAD")
	git(repo, "commit", "-q", "--allow-empty", "-m", "later")
	git(repo, "update-ref", "refs/pull/7/head", "HEAD")

	cmd := exec.Command("sh", "-ec", forgejoCheckout(t))
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "TOKEN=s3cret", "GITHUB_SERVER_URL=file://"+server, "GITHUB_REPOSITORY=infra/os",
		"GITHUB_REF=refs/pull/7/head", "GITHUB_SHA="+change)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the step: %v\n%s", err, out)
	}
	if got := git(work, "rev-parse", "HEAD"); got != change {
		t.Errorf("checked out %s, not the commit of the job %s", got, change)
	}
	if got := git(work, "merge-base", "origin/main", "HEAD"); got != base {
		t.Errorf("compares with %s, not with %s", got, base)
	}
	config, err := os.ReadFile(filepath.Join(work, ".git", "config"))
	if err != nil || strings.Contains(string(config), "Authorization") || strings.Contains(string(config), "s3cret") {
		t.Errorf("the token is in .git/config: %v\n%s", err, config)
	}
}

func forgejoCheckout(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("ci/forgejo/bunsen.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string
			}
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	steps := workflow.Jobs["bunsen"].Steps
	if len(steps) == 0 || !strings.Contains(steps[0].Run, "git fetch") {
		t.Fatal("the first step of the job does not fetch the repository")
	}
	return steps[0].Run
}
