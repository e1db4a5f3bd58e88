package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// server is git's own http server on loopback. It counts what it sends.
type server struct {
	*httptest.Server
	root  string
	bytes atomic.Int64
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
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		backend.ServeHTTP(countingWriter{w, &s.bytes}, r)
	}))
	return s, nil
}

func (s *server) path(name string) string { return filepath.Join(s.root, name) }

func (s *server) url(name string) string { return s.URL + "/" + name }

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

// fastImport creates a repository from a stream for git fast-import, and returns the commit of main.
func fastImport(ctx context.Context, bare string, write func(w *bufio.Writer)) (string, error) {
	cmd := shell(ctx, fmt.Sprintf("git init -q --bare -b main %[1]s; git -C %[1]s fast-import --quiet; git -C %[1]s "+
		"rev-parse main", bare))
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	go func() {
		w := bufio.NewWriter(in)
		write(w)
		_ = w.Flush() // the end of the command tells of an error
		_ = in.Close()
	}()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("creating the repository %s: %w", bare, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// commit writes the beginning of a commit.
func commit(w io.Writer, n int) {
	const message = "change"
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata %d\n%s\n", 1_700_000_000+n,
		len(message), message)
}

func file(w io.Writer, path, content string) {
	fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
}

// content is a file of about 900 bytes of which half does not compress.
func content(r *rand.Rand) string {
	var b strings.Builder
	for range 12 {
		fmt.Fprintf(&b, "key: %016x%016x # a line of a config file\n", r.Uint64(), r.Uint64())
	}
	return b.String()
}

func filePath(i int) string {
	folder := "pools"
	if i%5 == 0 {
		folder = "apps"
	}
	return fmt.Sprintf("%s/d%02d/f%05d.yaml", folder, i/5%80, i)
}

// world is the repository of the pairs, with two commits.
type world struct {
	b        *bench
	one, two string
}

func newWorld(b *bench) (*world, error) {
	r := rand.New(rand.NewPCG(1, 2))
	bare := b.server.path("cfg.git")
	one, err := fastImport(b.ctx, bare, func(w *bufio.Writer) {
		commit(w, 0)
		for i := range b.o.files {
			file(w, filePath(i), content(r))
		}
		for n := 1; n < b.o.commits; n++ {
			commit(w, n)
			file(w, filePath(r.IntN(b.o.files)), content(r))
		}
	})
	if err != nil {
		return nil, err
	}
	if err := shell(b.ctx, fmt.Sprintf("cd %s; git gc -q", bare)).Run(); err != nil {
		return nil, fmt.Errorf("packing the repository: %w", err)
	}
	w := &world{b: b, one: one}
	cmd := shell(b.ctx, fmt.Sprintf(`git -C %[1]s fast-import --quiet; git -C %[1]s rev-parse next`, bare))
	var change strings.Builder
	commit(&change, b.o.commits)
	text := strings.Replace(change.String(), "refs/heads/main", "refs/heads/next", 1) + "from refs/heads/main\n"
	var f strings.Builder
	file(&f, filePath(1), content(r))
	cmd.Stdin = strings.NewReader(text + f.String())
	next, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("adding a commit: %w", err)
	}
	w.two = strings.TrimSpace(string(next))
	return w, nil
}

// git measures a script of git commands.
func (w *world) git(script string) (measure.Sample, error) {
	return measure.Process(shell(w.b.ctx, script+"; echo done"))
}

// rows are the pairs. Each run of git works in a clone of its own, and each of ours with objects of its own.
func (w *world) rows() []pair {
	url := w.b.server.url("cfg.git")
	clone := func(dir, ref string) string {
		return fmt.Sprintf("git init -q %[1]s; cd %[1]s; git fetch -q --depth 1 %[2]s %[3]s; git reset -q --hard "+
			"FETCH_HEAD", dir, url, ref)
	}
	tree := func(hash, path, cache string, more ...string) (measure.Sample, error) {
		return w.b.client("tree", url, append([]string{
			"-hash", hash, "-path", path, "-cache", cache, "-into",
			w.b.fresh("tree"),
		}, more...)...)
	}
	return []pair{
		{"nothing new, 10 polls", func() (measure.Sample, error) {
			return w.git(strings.Repeat(fmt.Sprintf("git ls-remote -q %s refs/heads/main; ", url), 10) + ":")
		}, func() (measure.Sample, error) { return w.b.client("list", url, "-polls", "10") }, 0.5, 0},
		{"the first fetch, all files", func() (measure.Sample, error) {
			return w.git(clone(w.b.fresh("clone"), "main"))
		}, func() (measure.Sample, error) { return tree(w.one, "", w.b.fresh("cache")) }, 1.2, 0},
		{"the first fetch, files below pools", func() (measure.Sample, error) {
			return w.git(fmt.Sprintf("git clone -q --depth 1 --filter=blob:none --sparse %[1]s %[2]s; cd %[2]s; git "+
				"sparse-checkout set pools", url, w.b.fresh("clone")))
		}, func() (measure.Sample, error) { return tree(w.one, "pools", w.b.fresh("cache")) }, 1.2, 0},
		{"one file changed, all files", func() (measure.Sample, error) {
			dir := w.b.fresh("clone")
			if _, err := w.git(clone(dir, "main")); err != nil {
				return measure.Sample{}, err
			}
			w.b.server.bytes.Store(0)
			return w.git(fmt.Sprintf("cd %s; git fetch -q --depth 1 %s next; git reset -q --hard FETCH_HEAD", dir, url))
		}, func() (measure.Sample, error) {
			cache, earlier := w.b.fresh("cache"), w.b.fresh("earlier")
			if _, err := tree(w.one, "", cache, "-into", earlier); err != nil {
				return measure.Sample{}, err
			}
			w.b.server.bytes.Store(0)
			return tree(w.two, "", cache, "-applied", w.one, "-earlier", earlier)
		}, 1.5, 10_000},
	}
}

func makeManyRefs(ctx context.Context, bare string, n int) error {
	hash, err := fastImport(ctx, bare, func(w *bufio.Writer) {
		commit(w, 0)
		file(w, "pools/a", "a")
	})
	if err != nil {
		return err
	}
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range n {
		fmt.Fprintf(&refs, "%s refs/heads/topic-%06d\n", hash, i)
	}
	return os.WriteFile(filepath.Join(bare, "packed-refs"), []byte(refs.String()), 0o600)
}

func makeBomb(ctx context.Context, bare string) (string, error) {
	return fastImport(ctx, bare, func(w *bufio.Writer) {
		commit(w, 0)
		file(w, "pools/a", "a")
		for i := range 60 {
			file(w, fmt.Sprintf("elsewhere/%02d", i), fmt.Sprint(i)+strings.Repeat("\x00", 8_000_000))
		}
	})
}

func makeLarge(ctx context.Context, bare string) (string, error) {
	return fastImport(ctx, bare, func(w *bufio.Writer) {
		commit(w, 0)
		file(w, "pools/a", "a")
		const size = 100_000_000
		fmt.Fprintf(w, "M 100644 inline elsewhere/large\ndata %d\n", size)
		r := rand.New(rand.NewPCG(3, 4))
		for range size / 8 {
			v := r.Uint64()
			_, _ = w.Write([]byte{
				byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24), byte(v >> 32), byte(v >> 40),
				byte(v >> 48), byte(v >> 56),
			})
		}
		fmt.Fprintln(w)
	})
}
