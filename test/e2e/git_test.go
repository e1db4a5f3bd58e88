package e2e

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/ports"
)

const (
	gitUser     = "machines"
	gitPassword = "correct horse battery staple"
)

// gitHost serves bare repositories by git's own smart HTTP, behind basic authentication.
type gitHost struct {
	root    string
	address string
	backend string
	serving *http.Server
	// closed when nothing listens any more.
	closed chan struct{}
}

// up listens, at the same address every time.
func (g *gitHost) up() error {
	if g.address == "" {
		address, err := ports.Address()
		if err != nil {
			return err
		}
		g.address = address
	}
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		return fmt.Errorf("starting the git server: %w", err)
	}
	g.serving, g.closed = &http.Server{Handler: g}, make(chan struct{})
	go func() {
		_ = g.serving.Serve(l) // returns when the server is closed
		close(g.closed)
	}()
	return nil
}

// down closes the port and every connection. The port is closed only once nobody waits at it: before that, a look is
// let in and thrown out, which is another failure than a server that is away.
func (g *gitHost) down() {
	if g != nil && g.serving != nil {
		_ = g.serving.Close()
		<-g.closed
		g.serving = nil
	}
}

// ServeHTTP runs git-http-backend.
func (g *gitHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if user != gitUser || subtle.ConstantTimeCompare([]byte(password), []byte(gitPassword)) != 1 {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	(&cgi.Handler{
		Path: g.backend,
		Env: []string{
			"GIT_PROJECT_ROOT=" + g.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + user,
			"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + g.root,
		},
	}).ServeHTTP(w, r)
}

// gitrepo NAME makes the directory NAME a work tree of a new repository that the server serves.
func (s *story) gitrepo(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("gitrepo NAME")
	}
	name := args[0]
	if s.git == nil {
		path, err := exec.Command("git", "--exec-path").Output()
		if err != nil {
			return fmt.Errorf("asking git where its parts are: %w", err)
		}
		s.git = &gitHost{
			root:    filepath.Join(s.work, "git-server"),
			backend: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		}
		if err := s.git.up(); err != nil {
			return err
		}
	}
	bare := filepath.Join(s.git.root, name+".git")
	tree := ts.MkAbs(name)
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return err
	}
	ts.Setenv("URL", "http://"+s.git.address+"/"+name+".git")
	ts.Setenv("GITHOST", s.git.address)
	ts.Setenv("GITUSER", gitUser)
	ts.Setenv("GITPASSWORD", gitPassword)
	pushURL := fmt.Sprintf("http://%s:%s@%s/%s.git", gitUser, strings.ReplaceAll(gitPassword, " ", "%20"),
		s.git.address, name)
	for _, c := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"init", "--quiet", "--initial-branch=main", tree},
		{"-C", tree, "remote", "add", "origin", pushURL},
		{"-C", tree, "config", "branch.main.remote", "origin"},
		{"-C", tree, "config", "branch.main.merge", "refs/heads/main"},
	} {
		if err := ts.Exec("git", c...); err != nil {
			return err
		}
	}
	return nil
}

// gitserver up|down ends and starts the server.
func (s *story) gitserver(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "down" && s.git != nil:
		s.git.down()
		return nil
	case len(args) == 1 && args[0] == "up" && s.git != nil:
		return s.git.up()
	}
	return usage("gitserver up|down, after gitrepo")
}

// commit NAME SUBJECT commits everything and pushes it.
func (s *story) commit(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("commit NAME SUBJECT")
	}
	tree := ts.MkAbs(args[0])
	if err := ts.Exec("git", "-C", tree, "add", "--all"); err != nil {
		return err
	}
	if err := ts.Exec("git", "-C", tree, "commit", "--quiet", "-m", args[1]); err != nil {
		return err
	}
	return s.push(ts, args[:1])
}

// push NAME pushes the work tree's commit; $HEAD is its hash.
func (s *story) push(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("push NAME")
	}
	tree := ts.MkAbs(args[0])
	// The server's CGI takes no request whose length is unknown, and git sends large ones so.
	if err := ts.Exec("git", "-C", tree, "-c", "http.postBuffer=268435456", "push", "--quiet", "origin",
		"HEAD:main"); err != nil {
		return err
	}
	out, err := exec.Command("git", "-C", tree, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("asking for the commit: %w", err)
	}
	ts.Setenv("HEAD", strings.TrimSpace(string(out)))
	return nil
}
