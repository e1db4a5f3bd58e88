package git_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// gitEnv makes the git binary of a test independent of whoever runs it.
func gitEnv() []string {
	return append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada Lovelace", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=2026-01-02T03:04:05+02:00",
		"GIT_COMMITTER_NAME=Bot", "GIT_COMMITTER_EMAIL=bot@example.org", "GIT_COMMITTER_DATE=2026-01-02T04:04:05+02:00",
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always",
		"GIT_CONFIG_KEY_2=uploadpack.allowFilter", "GIT_CONFIG_VALUE_2=true")
}

func gitCmd(dir string, args ...string) (string, error) {
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, gitEnv()
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// repo is a bare repository and a work tree that pushes to it.
type repo struct {
	t          testing.TB
	root       string // holds cfg.git and work
	bare, work string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	root := t.TempDir()
	r := &repo{t: t, root: root, bare: filepath.Join(root, "cfg.git"), work: filepath.Join(root, "work")}
	r.git(root, "init", "-q", "--bare", "-b", "main", r.bare)
	r.git(root, "init", "-q", "-b", "main", r.work)
	r.git(r.work, "remote", "add", "origin", r.bare)
	return r
}

func (r *repo) git(dir string, args ...string) string {
	r.t.Helper()
	out, err := gitCmd(dir, args...)
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// write puts files into the work tree; a name that ends in ! is executable.
func (r *repo) write(files map[string]string) {
	r.t.Helper()
	for name, content := range files {
		name, executable := strings.CutSuffix(name, "!")
		p := filepath.Join(r.work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			r.t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit writes files, commits and pushes them, and returns the commit's hash.
func (r *repo) commit(subject string, files map[string]string) string {
	r.t.Helper()
	r.write(files)
	r.git(r.work, "add", "-A")
	r.git(r.work, "commit", "-q", "--allow-empty", "-m", subject)
	r.git(r.work, "push", "-q", "--force", "origin", "HEAD", "--tags")
	return r.git(r.work, "rev-parse", "HEAD")
}

// webServer is git's own http server, behind TLS and a password or token.
type webServer struct {
	*httptest.Server
	ca       []byte
	requests atomic.Int64
}

const (
	user     = "deploy"
	password = "correct-horse/battery"
	token    = "tok-4711-abcdef"
)

// backend is git's own http server for the repositories below a directory.
func backend(t *testing.T, root string, env ...string) http.Handler {
	t.Helper()
	path, err := gitCmd(root, "--exec-path")
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Root: "/", Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0),
		Env: append([]string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
			"GIT_CONFIG_KEY_1=uploadpack.allowFilter", "GIT_CONFIG_VALUE_1=true",
		}, env...),
		InheritEnv: []string{"PATH"},
	}
}

func serveHTTPS(t *testing.T, root string) *webServer {
	t.Helper()
	return serve(t, root)
}

// serve starts the server, with variables of the environment for git's own.
func serve(t *testing.T, root string, env ...string) *webServer {
	t.Helper()
	backend := backend(t, root, env...)
	s := &webServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		u, p, _ := r.BasicAuth()
		if (u != user || p != password) && r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no entry for "+r.Header.Get("Authorization")+" "+p, http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what some tests are for
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s
}

// serveWithoutFilter serves as git does by default: it sends all objects of a commit.
func serveWithoutFilter(t *testing.T, root string) *webServer {
	t.Helper()
	return serve(t, root, "GIT_CONFIG_VALUE_1=false")
}

// serveVersion0 serves as a server does that knows no other version of the protocol.
func serveVersion0(t *testing.T, root string) *webServer {
	t.Helper()
	s := serveHTTPS(t, root)
	handler := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		handler.ServeHTTP(w, r)
	})
	return s
}

func (s *webServer) secret(override map[string]string) map[string][]byte {
	return merged(map[string]string{"username": user, "password": password, "ca.crt": string(s.ca)}, override)
}

// merged lays override over base; an empty value takes a key away.
func merged(base, override map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for _, m := range []map[string]string{base, override} {
		for k, v := range m {
			out[k] = []byte(v)
			if v == "" {
				delete(out, k)
			}
		}
	}
	return out
}

// shellServer is an ssh server that runs git-upload-pack, and nothing else.
type shellServer struct {
	addr            string
	identity, known string
}

func newKey(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

func armored(t *testing.T, key ed25519.PrivateKey, passphrase string) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

// serveSSH serves repositories below root. With hang the command never answers.
func serveSSH(t *testing.T, root string, hang bool) *shellServer {
	t.Helper()
	host, _ := newKey(t)
	client, private := newKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() == "git" && bytes.Equal(k.Marshal(), client.PublicKey().Marshal()) {
			return nil, nil
		}
		return nil, fmt.Errorf("no entry for %s", c.User())
	}}
	config.AddHostKey(host)
	l := listen(t)
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveConn(conn, config, root, hang) })
		}
	})
	return &shellServer{
		addr: l.Addr().String(), identity: armored(t, private, ""),
		known: knownLine(t, l.Addr().String(), host),
	}
}

func knownLine(t *testing.T, addr string, host ssh.Signer) string {
	t.Helper()
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(host.PublicKey()))
}

func serveConn(conn net.Conn, config *ssh.ServerConfig, root string, hang bool) {
	defer conn.Close()
	sc, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(requests)
	for nc := range channels {
		ch, rs, err := nc.Accept()
		if err != nil {
			return
		}
		var env []string
		for r := range rs {
			if r.Type == "env" {
				var v struct{ Name, Value string }
				if ssh.Unmarshal(r.Payload, &v) == nil && v.Name == "GIT_PROTOCOL" {
					env = append(env, v.Name+"="+v.Value)
				}
			}
			_ = r.Reply(r.Type == "exec" || r.Type == "env", nil)
			if r.Type != "exec" || hang {
				continue
			}
			command, path, _ := strings.Cut(string(r.Payload[4:]), " ")
			path = filepath.Join(root, strings.Trim(path, "'"))
			c := exec.Command("git", strings.TrimPrefix(command, "git-"), path)
			c.Env, c.Stdout, c.Stderr = append(gitEnv(), env...), ch, ch.Stderr()
			// A pipe of its own: Run would wait for the client's end, which comes after the command's.
			stdin, err := c.StdinPipe()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(stdin, ch); _ = stdin.Close() }()
			var status struct{ Code uint32 }
			if c.Run() != nil {
				status.Code = 128
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
			_ = ch.Close()
		}
	}
}

func (s *shellServer) secret(override map[string]string) map[string][]byte {
	return merged(map[string]string{"identity": s.identity, "known_hosts": s.known}, override)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
