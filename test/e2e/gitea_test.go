package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/ports"
)

// TestGitea tells the stories with a real Gitea. $GITEA is its program, which make test-gitea builds.
func TestGitea(t *testing.T) {
	if os.Getenv("GITEA") == "" {
		t.Skip("GITEA does not name the program of Gitea: run make test-gitea")
	}
	if _, err := os.Stat(os.Getenv("GITEA")); err != nil {
		t.Fatalf("there is no Gitea to test with: %v; run make test-gitea", err)
	}
	p := findParts(t)
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"gitea": command((*story).gitea), "notifier": command((*story).notifier), "hook": command((*story).hook),
		"merged": command((*story).merged),
		"opened": command((*story).opened), "statuses": command((*story).forgeStatuses),
		"comments": command((*story).forgeComments),
	}
	for name, do := range storyCommands {
		commands[name] = command(do)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/gitea", RequireUniqueNames: true, Cmds: commands,
		Setup: func(env *testscript.Env) error { return begin(env, p) },
	})
}

const giteaSettings = `I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[1]s
ROOT_URL = http://127.0.0.1:%[1]s/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = %[2]s
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
PASSWORD_HASH_ALGO = pbkdf2_v2
[webhook]
ALLOWED_HOST_LIST = *
[log]
LEVEL = Warn
[repository]
DEFAULT_BRANCH = main
[actions]
ENABLED = false
`

// gitea NAME starts Gitea with the user of the stories and the repository NAME, whose work tree is the directory NAME.
// $URL is its address, $API that of the API, $TOKEN a token for all of it.
func (s *story) gitea(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("gitea NAME")
	}
	address, err := ports.Address()
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(address, ":")
	dir := filepath.Join(s.work, "gitea")
	settings := filepath.Join(dir, "app.ini")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(settings, fmt.Appendf(nil, giteaSettings, port, os.Getenv("GITEA_STATIC")),
		0o600); err != nil {
		return err
	}
	flags := []string{"--config", settings, "--work-path", dir}
	if err := s.start(ts, "gitea", os.Getenv("GITEA"), append([]string{"web"}, flags...)...); err != nil {
		return err
	}
	ts.Setenv("API", "http://"+address+"/api/v1")
	err = poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		res, err := http.Get("http://" + address + "/api/healthz")
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
	if err != nil {
		return err
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(os.Getenv("GITEA"), append(args, flags...)...)
		cmd.Env = []string{"HOME=" + s.work, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("gitea %q: %w", args, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n") // warnings come first
		return lines[len(lines)-1], nil
	}
	if _, err := run("admin", "user", "create", "--admin", "--username", gitUser, "--password", gitPassword, "--email",
		"m@example.org", "--must-change-password=false"); err != nil {
		return err
	}
	token, err := run("admin", "user", "generate-access-token", "--username", gitUser, "--token-name", "test",
		"--scopes", "all", "--raw")
	if err != nil {
		return err
	}
	ts.Setenv("TOKEN", token)
	if err := s.forge(ts, http.MethodPost, "/user/repos", map[string]any{"name": args[0]}, nil); err != nil {
		return err
	}
	ts.Setenv("REPO", gitUser+"/"+args[0])
	ts.Setenv("URL", "http://"+address+"/"+gitUser+"/"+args[0]+".git")
	ts.Setenv("GITHOST", address)
	tree := ts.MkAbs(args[0])
	pushURL := fmt.Sprintf("http://%s:%s@%s/%s/%s.git", gitUser, token, address, gitUser, args[0])
	for _, c := range [][]string{
		{"init", "--quiet", "--initial-branch=main", tree},
		{"-C", tree, "remote", "add", "origin", pushURL},
	} {
		if err := ts.Exec("git", c...); err != nil {
			return err
		}
	}
	return nil
}

// forge sends one request to Gitea's API.
func (s *story) forge(ts *testscript.TestScript, method, path string, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, ts.Getenv("API")+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "token "+ts.Getenv("TOKEN"))
	res, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// notifier starts machine-config-controller notify with its service account's rights. It sets statuses without a pause.
func (s *story) notifier(ts *testscript.TestScript, args []string) error {
	config, err := s.cluster.identity("notifier", serviceAccount("machine-config-notifier"))
	if err != nil {
		return err
	}
	args = append([]string{"notify", "--kubeconfig", config, "--status-interval", "100ms"}, args...)
	return s.start(ts, "notifier", filepath.Join(s.bin, "machine-config-controller"), args...)
}

// hook SOURCE SECRET lets Gitea announce pushes to the controller, once the controller receives them: Gitea sends each
// request once.
func (s *story) hook(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("hook SOURCE SECRET")
	}
	err := poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		res, err := http.Post(ts.Getenv("HOOK")+"/hook/"+args[0], "application/json", strings.NewReader("{}"))
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusUnauthorized, res.Body.Close()
	})
	if err != nil {
		return err
	}
	return s.forge(ts, http.MethodPost, "/repos/"+ts.Getenv("REPO")+"/hooks", map[string]any{
		"type": "gitea", "active": true, "events": []string{"push"},
		"config": map[string]string{"url": ts.Getenv("HOOK") + "/hook/" + args[0], "content_type": "json", "secret": args[1]},
	}, nil)
}

// opened NAME BRANCH SUBJECT commits everything on a new branch and opens a pull request, $PULL, with the last commit
// $BRANCH.
func (s *story) opened(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("opened NAME BRANCH SUBJECT")
	}
	tree, branch := ts.MkAbs(args[0]), args[1]
	for _, c := range [][]string{
		{"checkout", "--quiet", "-b", branch},
		{"add", "--all"},
		{"commit", "--quiet", "-m", args[2]},
		{"push", "--quiet", "origin", branch},
	} {
		if err := ts.Exec("git", append([]string{"-C", tree}, c...)...); err != nil {
			return err
		}
	}
	out, err := exec.Command("git", "-C", tree, "rev-parse", "HEAD").Output()
	if err != nil {
		return err
	}
	ts.Setenv("BRANCH", strings.TrimSpace(string(out)))
	var pull struct{ Number int }
	err = poll(patience, func() (bool, error) { // Gitea knows the branch a moment after the push
		err := s.forge(ts, http.MethodPost, "/repos/"+ts.Getenv("REPO")+"/pulls",
			map[string]any{"title": args[2], "head": branch, "base": "main"}, &pull)
		return err == nil, err
	})
	ts.Setenv("PULL", fmt.Sprint(pull.Number))
	return err
}

// merged merges the pull request. $HEAD is the merge commit.
func (s *story) merged(ts *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("merged, after opened")
	}
	path := "/repos/" + ts.Getenv("REPO") + "/pulls/" + ts.Getenv("PULL")
	err := poll(patience, func() (bool, error) { // Gitea first checks for conflicts
		err := s.forge(ts, http.MethodPost, path+"/merge", map[string]any{"Do": "merge"}, nil)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	var pull struct {
		Merged bool
		Commit string `json:"merge_commit_sha"`
	}
	if err := s.forge(ts, http.MethodGet, path, nil, &pull); err != nil {
		return err
	}
	ts.Setenv("HEAD", pull.Commit)
	return nil
}

// statuses CONTEXT REGEXP waits until all statuses of the commit $HEAD with this context, oldest first, match as `state
// description; …`.
func (s *story) forgeStatuses(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("statuses CONTEXT REGEXP")
	}
	want, err := regexp.Compile("^(?:" + args[1] + ")$")
	if err != nil {
		return err
	}
	return poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		var all []struct{ Status, Context, Description string }
		if err := s.forge(ts, http.MethodGet, "/repos/"+ts.Getenv("REPO")+"/commits/"+ts.Getenv("HEAD")+
			"/statuses?sort=oldest&limit=50", nil, &all); err != nil {
			return false, err
		}
		var got []string
		for _, x := range all {
			if x.Context == args[0] {
				got = append(got, x.Status+" "+x.Description)
			}
		}
		text := strings.Join(got, "; ")
		return want.MatchString(text), fmt.Errorf("the statuses are %q of %v", text, all)
	})
}

// comments REGEXP... waits until the pull request has exactly these comments, oldest first.
func (s *story) forgeComments(ts *testscript.TestScript, args []string) error {
	return poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		var all []struct{ Body string }
		if err := s.forge(ts, http.MethodGet, "/repos/"+ts.Getenv("REPO")+"/issues/"+ts.Getenv("PULL")+"/comments", nil,
			&all); err != nil {
			return false, err
		}
		if len(all) != len(args) {
			return false, fmt.Errorf("there are %d comments: %v", len(all), all)
		}
		for i, x := range all {
			if matches, err := regexp.MatchString("(?s)"+args[i], x.Body); err != nil || !matches {
				return false, fmt.Errorf("comment %d is\n%s", i+1, x.Body)
			}
		}
		return true, nil
	})
}
