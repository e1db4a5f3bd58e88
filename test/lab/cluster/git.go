package cluster

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Repository is a git repository that the cluster fetches over HTTP.
type Repository struct {
	// URL for a GitSource.
	URL string
	// Dir is its work tree.
	Dir string

	c *Cluster
}

// NewRepository makes an empty repository and serves it with git's own HTTP backend.
func (c *Cluster) NewRepository() *Repository {
	c.t.Helper()
	dir := c.t.TempDir()
	r := &Repository{c: c, Dir: filepath.Join(dir, "work")}
	bare := filepath.Join(dir, "served", "config.git")
	r.git("init", "--quiet", "--bare", "--initial-branch=main", bare)
	r.git("clone", "--quiet", bare, r.Dir)
	program, err := exec.LookPath("git")
	c.must(err)
	l := c.Network.Listen(0)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
		Path: program, Args: []string{"http-backend"}, Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(bare),
			"GIT_HTTP_EXPORT_ALL=1",
		},
	}}
	go server.Serve(l)                     //nolint:errcheck // it ends with its listener
	c.t.Cleanup(func() { server.Close() }) //nolint:errcheck,gosec // it ends with the test
	r.URL = "http://" + l.Addr().String() + "/config.git"
	return r
}

// Push commits files, by path, and pushes them. A file without content is removed.
func (r *Repository) Push(subject string, files map[string]string) {
	r.c.t.Helper()
	for path, text := range files {
		at := filepath.Join(r.Dir, path)
		if text == "" {
			r.c.must(os.Remove(at))
			continue
		}
		r.c.must(os.MkdirAll(filepath.Dir(at), 0o755))
		r.c.must(os.WriteFile(at, []byte(text), 0o644))
	}
	r.git("-C", r.Dir, "add", "--all")
	r.git("-C", r.Dir, "commit", "--quiet", "--message", subject)
	r.git("-C", r.Dir, "push", "--quiet", "origin", "HEAD:main")
}

// Revert reverts the last commit, and pushes.
func (r *Repository) Revert() {
	r.c.t.Helper()
	r.git("-C", r.Dir, "revert", "--no-edit", "HEAD")
	r.git("-C", r.Dir, "push", "--quiet", "origin", "HEAD:main")
}

func (r *Repository) git(args ...string) {
	r.c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada",
		"GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
