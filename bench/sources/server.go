package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// server is git's own http server on loopback, which counts requests, and a server that never answers.
type server struct {
	*httptest.Server
	root string
	dead net.Listener
	counters
}

// counters are the requests so far.
type counters struct {
	first, lists, fetches atomic.Int64
	bytes                 atomic.Int64
}

// counts are the requests of a period.
type counts struct {
	// first is the number of requests that begin a session, lists that of listings of refs, and fetches that of
	// requests for objects.
	first, lists, fetches int64
	// bytes is the size of all answers.
	bytes int64
}

func (c *counters) read() counts {
	return counts{c.first.Load(), c.lists.Load(), c.fetches.Load(), c.bytes.Load()}
}

func (c counts) since(b counts) counts {
	return counts{c.first - b.first, c.lists - b.lists, c.fetches - b.fetches, c.bytes - b.bytes}
}

// count counts a request, and returns its body.
func (c *counters) count(r *http.Request) (io.ReadCloser, error) {
	if r.Method == http.MethodGet {
		c.first.Add(1)
		return r.Body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	switch {
	case bytes.Contains(body, []byte("command=ls-refs")):
		c.lists.Add(1)
	case bytes.Contains(body, []byte("command=fetch")):
		c.fetches.Add(1)
	}
	return io.NopCloser(bytes.NewReader(body)), err
}

type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

// Write counts bytes.
func (w countingWriter) Write(b []byte) (int, error) {
	w.n.Add(int64(len(b)))
	return w.ResponseWriter.Write(b)
}

// uncounted is a header with which the requests of this program's own git are not counted.
const uncounted = "X-Bench-Floor"

func serve(root string) (*server, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("finding git: %w", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/", Stderr: io.Discard,
		Env:        append([]string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, environment...),
		InheritEnv: []string{"PATH"},
	}
	s := &server{root: root}
	if s.dead, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go holdConnections(s.dead)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(uncounted) != "" {
			backend.ServeHTTP(w, r)
			return
		}
		body, err := s.count(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = body
		backend.ServeHTTP(countingWriter{w, &s.bytes}, r)
	}))
	return s, nil
}

// holdConnections accepts connections until the listener is closed, and answers none.
func holdConnections(l net.Listener) {
	var open []net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		open = append(open, c)
	}
	for _, c := range open {
		_ = c.Close() // the program ends
	}
}

// Close stops both servers.
func (s *server) Close() {
	_ = s.dead.Close() // the program ends
	s.Server.Close()
}

// environment makes git independent of the user's settings.
var environment = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=2",
	"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=uploadpack.allowFilter",
	"GIT_CONFIG_VALUE_1=true",
}

// shell runs git commands and returns their output.
func shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Env = append(os.Environ(), environment...)
	return cmd
}

// file is a file of a commit.
type file struct{ path, content string }

// push commits files on top of main, and returns the commit. It creates the repository if necessary.
func (s *server) push(ctx context.Context, name string, n int, files []file) (string, error) {
	bare := filepath.Join(s.root, name)
	script := fmt.Sprintf("git -C %[1]s fast-import --quiet; git -C %[1]s rev-parse main", bare)
	if _, err := os.Stat(bare); err != nil {
		script = fmt.Sprintf("git init -q --bare -b main %s; %s", bare, script)
	}
	var stream strings.Builder
	w := bufio.NewWriter(&stream)
	const message = "change"
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata %d\n%s\n", 1_700_000_000+n,
		len(message), message)
	if n > 0 {
		fmt.Fprintln(w, "from refs/heads/main^0")
	}
	for _, f := range files {
		fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", f.path, len(f.content), f.content)
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	cmd := shell(ctx, script)
	cmd.Stdin = strings.NewReader(stream.String())
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pushing to the repository %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
