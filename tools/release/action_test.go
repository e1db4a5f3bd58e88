package main

import (
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// runner is a runner of GitHub Actions for one job: it has no Go, and nothing of Bunsen.
type runner struct {
	t *testing.T
	// home is fresh, temp is RUNNER_TEMP, and workspace has the checkout.
	home, temp, workspace string
	// action is the folder with action.yml, as the runner downloads it.
	action string
	path   string
	env    []string
	// releases is the URL of the server with the releases.
	releases string
}

// newRunner checks out an example as a repository with one commit.
func newRunner(t *testing.T, action string, releases *httptest.Server, files map[string]string) *runner {
	t.Helper()
	r := &runner{t: t, home: t.TempDir(), temp: t.TempDir(), workspace: t.TempDir(), action: action, path: "/usr/bin:/bin"}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: releases.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	r.releases = releases.URL
	r.env = []string{"CURL_CA_BUNDLE=" + authority}
	if err := os.CopyFS(r.workspace, os.DirFS(filepath.Join(root, "examples", "quickstart"))); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main", ".")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "base")
	r.git("checkout", "-q", "-b", "change")
	for name, text := range files {
		at := filepath.Join(r.workspace, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "change")
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "change")
	return r
}

func (r *runner) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
	cmd.Dir = r.workspace
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// metadata is what the runner reads of action.yml.
type metadata struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			ID, If, Shell, Run string
			Env                map[string]string
		}
	}
}

var (
	expression = regexp.MustCompile(`\$\{\{ ([^}]*) \}\}`)
	comparison = regexp.MustCompile(`^inputs\.([a-z-]+) ([!=]=) '([a-z-]*)'$`)
)

// use runs the action as the runner does, with inputs, and returns the log and the exit code of the step that failed.
func (r *runner) use(inputs map[string]string) (log string, code int) {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.action, "action.yml"))
	if err != nil {
		r.t.Fatal(err)
	}
	var m metadata
	if err := yaml.Unmarshal(raw, &m); err != nil {
		r.t.Fatal(err)
	}
	context := map[string]string{}
	evaluate := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			name := expression.FindStringSubmatch(e)[1]
			if value, known := context[name]; known {
				return value
			}
			r.t.Fatalf("the runner knows no %s", name)
			return ""
		})
	}
	context["github.token"] = "s3cret"
	for name, input := range m.Inputs {
		context["inputs."+name] = evaluate(input.Default)
	}
	for name, value := range inputs {
		context["inputs."+name] = value
	}
	for _, step := range m.Runs.Steps {
		if !r.wants(step.If, context) {
			continue
		}
		if strings.Contains(step.Run, "${{") {
			r.t.Errorf("a script contains a value of the workflow, which could be code: %s", step.Run)
		}
		outputs := filepath.Join(r.t.TempDir(), "outputs")
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir = r.workspace
		cmd.Env = append([]string{
			"PATH=" + r.path, "HOME=" + r.home, "RUNNER_TEMP=" + r.temp, "GITHUB_WORKSPACE=" + r.workspace, "CI=true",
			"GITHUB_ACTION_PATH=" + r.action, "GITHUB_OUTPUT=" + outputs, "GITHUB_PATH=" + outputs + ".path",
		}, r.env...)
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+evaluate(value))
		}
		text, err := cmd.CombinedOutput()
		log += string(text)
		if err != nil {
			return log, cmd.ProcessState.ExitCode()
		}
		set, _ := os.ReadFile(outputs)
		for line := range strings.Lines(string(set)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				context["steps."+step.ID+".outputs."+name] = value
			}
		}
	}
	return log, 0
}

// wants evaluates the condition of a step.
func (r *runner) wants(condition string, context map[string]string) bool {
	for part := range strings.SplitSeq(condition, " && ") {
		if condition == "" {
			break
		}
		m := comparison.FindStringSubmatch(part)
		if m == nil {
			r.t.Fatalf("the runner does not know the condition %q", condition)
		}
		if (context["inputs."+m[1]] == m[3]) != (m[2] == "==") {
			return false
		}
	}
	return true
}

// pinnedAction returns a copy of the action that pins the release in a directory, which is at an address.
func pinnedAction(t *testing.T, out, keyFile, downloads string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "action"), os.DirFS(filepath.Join(root, "action"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"action.yml", ".pre-commit-hooks.yaml", "templates/review.yml"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := writePins(buildOptions{
		Root: dir, Out: withImage(t, out, keyFile), Key: keyFile, Version: version, Downloads: downloads,
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// withImage returns a release that also has the image for jobs, which a registry of this test could not keep.
func withImage(t *testing.T, out, keyFile string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(out)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "images.json"), `{"bunsen-ci": "registry.example.com/bunsen/bunsen-ci@sha256:`+
		strings.Repeat("ab", 32)+`"}`)
	if err := writeSums(dir, keyFile); err != nil {
		t.Fatal(err)
	}
	return dir
}

// releases serves the files of a release over https, and what a test puts in their place.
type releases struct {
	dir string
	mu  sync.Mutex
	// instead are contents by the name of a file; an empty one is a file that is missing.
	instead map[string]string
}

// ServeHTTP implements http.Handler.
func (s *releases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := path.Base(r.URL.Path)
	switch text, replaced := s.instead[name]; {
	case path.Dir(r.URL.Path) != "/"+version:
		http.NotFound(w, r)
	case strings.HasPrefix(text, "http"):
		http.Redirect(w, r, text, http.StatusFound)
	case replaced && text == "":
		http.NotFound(w, r)
	case replaced:
		_, _ = io.WriteString(w, text)
	default:
		http.ServeFile(w, r, filepath.Join(s.dir, name))
	}
}

// maxSeconds is how long the check of a pull request may take from nothing: a runner has neither Go nor Bunsen.
const maxSeconds = 20

var (
	dist    = flag.String("dist", "", "what make release VERSION=v0.1.0 wrote, in place of programs in BUNSEN_BIN")
	distKey = flag.String("dist-key", "", "the private key with which -dist was signed")
)

// cliRelease makes a release of the CLI in BUNSEN_BIN.
func cliRelease(t *testing.T) (out, keyFile string) {
	t.Helper()
	bin := programs(t)
	out = t.TempDir()
	keyFile, _ = newKey(t)
	if err := run(t.Context(), []string{
		"cli", "-root", root, "-o", out, "-version", version, "-bin", bin, "-key", keyFile,
	}); err != nil {
		t.Fatal(err)
	}
	return out, keyFile
}

// TestTheAction has a runner check pull requests with a release, as people and attackers make them.
func TestTheAction(t *testing.T) {
	out, keyFile := *dist, *distKey
	if out == "" {
		out, keyFile = cliRelease(t)
	}
	archive := "bunsen-" + version + "-linux-" + arch() + ".tar.gz"
	action := pinnedAction(t, out, keyFile, "")
	key, err := os.ReadFile(filepath.Join(action, "action", "release.pem"))
	if err != nil {
		t.Fatal(err)
	}
	evil := "#!/bin/sh\ntouch \"$HOME/owned\"\n"
	broken := map[string]string{"pools/worker/30-motd.bu": "variant: fcos\nversion: 1.6.0\nstorage:\n  filez: []\n"}
	hostile := map[string]string{
		"bunsen": evil, "curl": evil, "tar": evil, "git": evil, "openssl": evil, "action/install.sh": evil,
		"action/run.sh": evil, ".curlrc": "output = owned\n", "pins": "x", ".bashrc": evil, "action.yml": "x",
	}
	other, err := os.ReadFile(filepath.Join(out, "bunsen.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for sentence, test := range map[string]struct {
		files   map[string]string
		inputs  map[string]string
		instead map[string]string
		before  func(*runner)
		code    int
		want    string
	}{
		"a valid repository passes": {want: "and the signature is that of the key"},
		"a problem is at its line":  {files: broken, code: 2, want: "::error file=pools/worker/30-motd.bu,line=4,col=3,title=bunsen%3A unknown-key::"},
		"a folder of a repository": {
			inputs: map[string]string{"path": "pools"}, code: 2, want: "there is no directory pools/ in pools",
		},
		"a plan": {
			files:  map[string]string{"pools/worker/files/motd": "Another message\n"},
			inputs: map[string]string{"run": "plan"}, want: "posted",
		},
		"a plan for one of several clusters, since the branch began": {
			files: map[string]string{"pools/worker/files/motd": "Another message\n"},
			inputs: map[string]string{
				"run": "plan", "base": "main^1...change", "key": "prod", "nodes": "worker=40/4", "path": ".",
			},
			want: "<!-- bunsen:plan:v1:prod -->",
		},
		"a merge of an earlier commit of the pull request": {
			before: func(r *runner) {
				r.git("checkout", "-q", "change")
				r.git("commit", "-q", "--allow-empty", "-m", "pushed meanwhile")
				r.git("checkout", "-q", "main")
			},
			inputs: map[string]string{"run": "plan"}, code: 2, want: "nor a merge of it",
		},
		"a base that is an option": {
			inputs: map[string]string{"run": "plan", "base": "--dry-run"}, code: 2, want: "--dry-run",
		},
		"only the program":   {inputs: map[string]string{"run": "install"}, want: "bunsen " + version},
		"another verb":       {inputs: map[string]string{"run": "x::y"}, code: 2, want: "the input run is xy, and not"},
		"a hostile checkout": {files: hostile, want: "and the signature is that of the key"},
		"a replaced archive": {instead: map[string]string{archive: string(other)}, code: 1, want: "is not what this commit pins"},
		"a replaced release": {
			instead: map[string]string{archive: "x", "SHA256SUMS": "y", "SHA256SUMS.sig": "z"}, code: 1,
			want: "is not what this commit pins",
		},
		"checksums of somebody else": {instead: map[string]string{"SHA256SUMS": "y"}, code: 1, want: "is not that of the key"},
		"no signature":               {instead: map[string]string{"SHA256SUMS.sig": ""}, code: 1, want: "there is no https://"},
		"a pin that nobody signed": {
			code: 1, want: "the maintainers signed no " + archive,
			instead: map[string]string{archive: "mine"},
			before: func(r *runner) {
				sum := "98f27a0b6b8c3ec3c9b2fbd0c8e1e2ef0bd7bbdd5c5b7bbff1ee3e3f0b3ed8f9"
				if out, err := exec.Command("sh", "-c", "printf mine | sha256sum | cut -c 1-64").Output(); err == nil {
					sum = strings.TrimSpace(string(out))
				}
				r.action = pinnedAction(t, out, keyFile, "")
				write(t, filepath.Join(r.action, "action", "pins"), sum+"  "+archive+"\n")
			},
		},
		"a redirect from https": {
			instead: map[string]string{archive: "http://127.0.0.1:1/x"}, code: 1, want: "downloading",
		},
		"a key of the user": {inputs: map[string]string{"public-key": string(key)}, want: "and the signature is that of the key"},
		"another key of the user": {
			inputs: map[string]string{"public-key": string(otherKey(t, "EC"))}, code: 1, want: "is not that of the key",
		},
		"a key that macOS cannot check": {
			inputs: map[string]string{"public-key": string(otherKey(t, "ed25519"))}, code: 1,
			want: "::error title=bunsen::the public key is an Ed25519 key",
		},
		"no openssl": {
			before: withoutOpenSSL,
			want: "::warning title=bunsen::the signature of " + version +
				" is not checked, because this runner has no openssl\n",
		},
		"a fork of Bunsen with releases of its own": {
			inputs: map[string]string{"downloads": ""}, want: "and the signature is that of the key",
			before: func(r *runner) { r.action = pinnedAction(t, out, keyFile, r.releases+"/"+version) },
		},
		"a mirror without this release": {
			instead: map[string]string{archive: ""}, code: 1,
			want: archive + ": set the input downloads to a place that has the release " + version,
		},
		"no openssl, and a key of the user": {
			inputs: map[string]string{"public-key": string(key)}, before: withoutOpenSSL, code: 1,
			want: "needs openssl",
		},
		"a commit before the first release": {
			before: func(r *runner) {
				r.action = pinnedAction(t, out, keyFile, "")
				write(t, filepath.Join(r.action, "action", "pins"), pinsHead)
			}, code: 1, want: "this commit of Bunsen pins no release",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			files := &releases{dir: out, instead: test.instead}
			server := httptest.NewTLSServer(files)
			defer server.Close()
			r := newRunner(t, action, server, test.files)
			if test.before != nil {
				test.before(r)
			}
			posted := fakeGitHub(t, r)
			inputs := map[string]string{"downloads": server.URL}
			for name, value := range test.inputs {
				inputs[name] = value
			}
			begun := time.Now()
			log, code := r.use(inputs)
			seconds := time.Since(begun).Seconds()
			log += posted()
			t.Logf("%.1f s, exit code %d\n%s", seconds, code, log)
			if code != test.code || !strings.Contains(log, test.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, test.code, test.want, log)
			}
			if _, err := os.Stat(filepath.Join(r.home, "owned")); err == nil {
				t.Error("the action ran a file of the checkout")
			}
			if seconds > maxSeconds {
				t.Errorf("it took %.1f s, at most %d", seconds, maxSeconds)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func otherKey(t *testing.T, algorithm string) []byte {
	t.Helper()
	options := map[string]string{"EC": "-pkeyopt ec_paramgen_curve:P-256"}[algorithm]
	out, err := exec.Command("sh", "-c", "openssl genpkey -algorithm "+algorithm+" "+options+
		" | openssl pkey -pubout").Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutOpenSSL leaves the runner the programs that the action needs.
func withoutOpenSSL(r *runner) {
	r.path = r.t.TempDir()
	for _, name := range []string{
		"bash", "cat", "cp", "curl", "cut", "dirname", "grep", "gzip", "mkdir", "mktemp", "mv", "sha256sum", "tar", "tr", "uname",
	} {
		at, err := exec.LookPath(name)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(r.path, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// fakeGitHub answers the requests of a job that posts a comment, and returns what it was told.
func fakeGitHub(t *testing.T, r *runner) (told func() string) {
	var mu sync.Mutex
	var all bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case q.Header.Get("Authorization") != "Bearer s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/comments"):
			_, _ = io.WriteString(w, "[]")
		case q.Method == http.MethodPost:
			fmt.Fprintf(&all, "posted %s: %.300s\n", q.URL.Path, body)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id": 1}`)
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	t.Cleanup(server.Close)
	event := filepath.Join(t.TempDir(), "event.json")
	head := strings.TrimSpace(output(t, "git", "-C", r.workspace, "rev-parse", "change"))
	write(t, event, `{"pull_request": {"number": 7, "head": {"sha": "`+head+`"}}}`)
	r.env = append(r.env, "GITHUB_ACTIONS=true", "GITHUB_API_URL="+server.URL, "GITHUB_SERVER_URL="+server.URL,
		"GITHUB_REPOSITORY=infra/os-config", "GITHUB_EVENT_PATH="+event, "GITHUB_RUN_ID=1",
		"GITHUB_EVENT_NAME=pull_request_target", "GITHUB_BASE_REF=main", "NO_PROXY=127.0.0.1")
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}
