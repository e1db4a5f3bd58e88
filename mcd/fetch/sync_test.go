package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/fetch"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// large is the content of the remote file: larger than the parts in which it is read.
var large = bytes.Repeat([]byte("a remote file\n"), 100_000)

func sha512Of(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256-" + hex.EncodeToString(sum[:])
}

// machine is a machine with one HTTPS server, whose CA is in the config.
type machine struct {
	t      testing.TB
	dir    string
	root   *files.Root
	server *httptest.Server
	// stall is how long the server may send nothing.
	stall time.Duration
	// stored requests files of the content store; nil for a machine without a cluster.
	stored fetch.Stored
}

func newMachine(t testing.TB, dir string, serve http.HandlerFunc) *machine {
	t.Helper()
	m := &machine{t: t, dir: dir, stall: 10 * time.Second}
	if serve != nil {
		m.server = httptest.NewUnstartedServer(serve)
		m.server.Config.ErrorLog = nil
		m.server.StartTLS()
		t.Cleanup(m.server.Close)
	}
	m.open()
	return m
}

// open opens the machine as a new process does.
func (m *machine) open() {
	m.t.Helper()
	root, err := files.Open(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { root.Close() })
	m.root = root
}

// fetcher returns what downloads files of the machine.
func (m *machine) fetcher() *fetch.Fetcher {
	s := m.root.ContentStore()
	return &fetch.Fetcher{Files: m.root, Store: s, Partials: s, Web: func(a fetch.Access) fetch.Web {
		return fetch.WithStored(download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities,
			Logins: a.Logins, Mirrors: a.Mirrors, Agent: "test", Stall: m.stall, Rate: 1 << 40,
		}), m.stored)
	}}
}

// config returns a config with one remote file, and the CA of the server.
func (m *machine) config(address, hash, compression string) machineconfig.Config {
	c := machineconfig.Config{}
	r := ign.Resource{Source: &address, Verification: ign.Verification{Hash: &hash}}
	if compression != "" {
		r.Compression = &compression
	}
	c.Ignition.Storage.Files = []ign.File{{
		Node:          ign.Node{Path: "/opt/large"},
		FileEmbedded1: ign.FileEmbedded1{Contents: r},
	}}
	if m.server != nil {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.server.Certificate().Raw})
		source := "data:;base64," + base64.StdEncoding.EncodeToString(ca)
		c.Ignition.Ignition.Security.TLS.CertificateAuthorities = []ign.Resource{{Source: &source}}
	}
	return c
}

func (m *machine) fetch(c machineconfig.Config) error {
	_, err := m.fetcher().Fetch(m.t.Context(), c, func(fetch.Progress) error { return nil })
	return err
}

// has fails unless the machine has exactly these contents and no others.
func (m *machine) has(data []byte) {
	m.t.Helper()
	d := host.DigestOf(data)
	s := m.root.ContentStore()
	if _, has, err := s.Size(d); err != nil || !has {
		m.t.Fatalf("the store has the contents: %t, %v", has, err)
	}
	if err := s.Write("/written", host.Entry{Kind: host.File, Mode: 0o640, Digest: d}); err != nil {
		m.t.Fatal(err)
	}
	got, err := os.ReadFile(m.dir + "/written")
	if err != nil || !bytes.Equal(got, data) {
		m.t.Fatalf("it wrote %d bytes, %v; want %d", len(got), err, len(data))
	}
	if is, err := os.Stat(m.dir + host.ContentDir); err != nil || is.Mode().Perm() != 0o700 {
		m.t.Errorf("the store's directory is %v, %v", is.Mode(), err)
	}
}

// serveFile serves the large file with an ETag, as a server of static files does.
func serveFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(large))
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func TestARemoteFileIsDownloadedAndVerified(t *testing.T) {
	for says, c := range map[string]struct {
		hash        string
		compression string
		body        []byte
	}{
		"with sha512":           {sha512Of(large), "", large},
		"with sha256":           {sha256Of(large), "", large},
		"compressed":            {sha512Of(large), "gzip", zipped(large)},
		"compressed, sha256":    {sha256Of(large), "gzip", zipped(large)},
		"compressed by mistake": {sha256Of(zipped(large)), "", zipped(large)},
	} {
		t.Run(says, func(t *testing.T) {
			m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) { w.Write(c.body) })
			config := m.config(m.server.URL+"/x?token=1", c.hash, c.compression)
			if err := m.fetch(config); err != nil {
				t.Fatal(err)
			}
			want := large
			if c.compression == "" {
				want = c.body
			}
			m.has(want)
			left, _ := os.ReadDir(m.dir + host.ContentDir)
			if most := map[bool]int{true: 2, false: 1}[strings.HasPrefix(c.hash, "sha512")]; len(left) != most {
				t.Errorf("the store has %v", left)
			}
			resolved := machineconfig.RemoteFiles(m.fetcher().Resolve(config))
			if resolved[0].Hash != sha256Of(want) {
				t.Errorf("it resolves to %s", resolved[0].Hash)
			}
		})
	}
}

func TestWhatCannotBeDownloadedSaysWhy(t *testing.T) {
	other := sha512Of([]byte("other"))
	bomb := zipped(make([]byte, host.MaxDownload+1))
	plain := httptest.NewServer(http.HandlerFunc(serveFile))
	t.Cleanup(plain.Close)
	for says, c := range map[string]struct {
		hash, compression string
		serve             http.HandlerFunc
		want              string
	}{
		"other contents": {other, "", serveFile, "the server has other contents: their hash is " + sha512Of(large) + ", and the config has " + other},
		"less than the server said": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			w.Write(large[:1000])
		}, "EOF"},
		"nothing there": {sha512Of(large), "", http.NotFound, "the server answers 404"},
		"a redirect to http": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, plain.URL+"/y?token=geheim", http.StatusFound)
		}, "the server redirects from https to http://"},
		"a redirect to a password": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://u:geheim@"+r.Host+"/y", http.StatusFound)
		}, "which is not an address for downloads"},
		"endless redirects": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again?token=geheim", http.StatusFound)
		}, "redirects more than 10 times"},
		"more than a file may have": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(int64(host.MaxDownload)+1))
			w.WriteHeader(200)
		}, "a remote file has at most 1073741824"},
		"a bomb":     {sha512Of(large), "gzip", func(w http.ResponseWriter, r *http.Request) { w.Write(bomb) }, "it has more than 1073741824 bytes"},
		"no gzip":    {sha512Of(large), "gzip", serveFile, "unpacking: gzip: invalid header"},
		"a cut gzip": {sha512Of(large), "gzip", func(w http.ResponseWriter, r *http.Request) { w.Write(zipped(large)[:500]) }, "unpacking: unexpected EOF"},
		"a stalled server": {sha512Of(large), "", func(w http.ResponseWriter, r *http.Request) {
			w.Write(large[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "the server sent nothing for 200ms"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, t.TempDir(), c.serve)
			m.stall = 10 * time.Second
			if strings.Contains(says, "stalled") {
				m.stall = 200 * time.Millisecond
			}
			err := m.fetch(m.config(m.server.URL+"/x?token=geheim", c.hash, c.compression))
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), m.server.URL+"/x?…") || strings.Contains(err.Error(), "geheim") {
				t.Errorf("it says %v\nwant %q", err, c.want)
			}
			if all, _, err := m.root.ContentStore().Digests(); err != nil || len(all) > 0 {
				t.Errorf("the store has %v, %v", all, err)
			}
		})
	}
}

func TestAServerThatIsAwayDelaysOnlyTheDownload(t *testing.T) {
	var away atomic.Bool
	var ranges []string
	m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
		if away.Load() {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			w.Write(large[:len(large)/2])
			panic(http.ErrAbortHandler)
		}
		serveFile(w, r)
	})
	c := m.config(m.server.URL, sha512Of(large), "")
	away.Store(true)
	if err := m.fetch(c); err == nil {
		t.Fatal("the server was away")
	}
	m.open() // Another process continues.
	away.Store(false)
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
	if len(ranges) != 2 || ranges[0] != " " || !strings.HasPrefix(ranges[1], "bytes=") ||
		!strings.HasSuffix(ranges[1], ` "1"`) || ranges[1] == `bytes=0- "1"` {
		t.Errorf("it requested %q", ranges)
	}
	if err := m.fetch(c); err != nil || len(ranges) != 2 {
		t.Errorf("it requested what it had: %v, %q", err, ranges)
	}
}

// TestAFileThatChangedOnTheServerStartsAgain: If-Range and, without it, the hash show that the parts do not fit.
func TestAFileThatChangedOnTheServerStartsAgain(t *testing.T) {
	m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(large))
	})
	c := m.config(m.server.URL, sha512Of(large), "")
	s := m.root.ContentStore()
	w, err := s.Append(sha512Of(large), fetch.Partial{URL: m.server.URL}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("of an earlier version"))
	w.Close()
	var other *fetch.MismatchError
	if err := m.fetch(c); !errors.As(err, &other) {
		t.Fatalf("it says %v", err)
	}
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
}

func TestContentsOfIgnitionAreNotDownloadedAgain(t *testing.T) {
	m := newMachine(t, t.TempDir(), nil)
	os.MkdirAll(m.dir+"/opt", 0o755)
	os.WriteFile(m.dir+"/opt/large", large, 0o644)
	if err := m.fetch(m.config("https://127.0.0.1:1/file", sha512Of(large), "gzip")); err != nil {
		t.Fatal(err)
	}
	m.has(large)
	os.WriteFile(m.dir+"/opt/large", []byte("changed"), 0o644)
	if err := m.fetch(m.config("https://127.0.0.1:1/file", sha512Of([]byte("x")), "")); err == nil {
		t.Error("a file with another hash was stored")
	}
}

func TestContentsStayForOneRollback(t *testing.T) {
	m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	config := func(name string) machineconfig.Config {
		return m.config(m.server.URL+"/"+name, sha512Of([]byte("/"+name)), "")
	}
	for _, step := range []struct{ to, want string }{
		{"a", "a"},
		{"b", "ab"},
		{"b", "ab"},
		{"a", "ab"},
		{"c", "ac"},
		{"", "c"},
		{"", "c"},
	} {
		c := machineconfig.Config{}
		if step.to != "" {
			c = config(step.to)
		}
		if err := m.fetch(c); err != nil {
			t.Fatal(err)
		}
		if err := m.fetcher().Confirm("rendered-"+step.to, c); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, name := range []string{"a", "b", "c"} {
			if _, has, _ := m.root.ContentStore().Size(host.DigestOf([]byte("/" + name))); has {
				got += name
			}
		}
		if got != step.want {
			t.Errorf("after %q, the store has %q, want %q", step.to, got, step.want)
		}
	}
}

func TestDamagedContentsAreDownloadedAgain(t *testing.T) {
	m := newMachine(t, t.TempDir(), serveFile)
	c := m.config(m.server.URL, sha512Of(large), "")
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	d := host.DigestOf(large)
	os.WriteFile(m.dir+host.ContentDir+"/"+string(d), []byte("rot"), 0o600)
	if err := m.root.ContentStore().Write("/opt",
		host.Entry{Kind: host.File, Mode: 0o644, Digest: d}); err == nil ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("it says %v", err)
	}
	if _, err := os.Stat(m.dir + "/opt"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it wrote damaged contents: %v", err)
	}
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
}

// from returns what requests files of the content store from servers, another one each time, as nodes do.
func from(servers ...*machine) fetch.Stored {
	requests := 0
	return func(ctx context.Context, hash string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
		s := servers[requests%len(servers)].server
		requests++
		return download.Over(s.Client(), "test", 10*time.Second, 1<<40).Get(ctx, s.URL+"/node/content/"+hash, headers)
	}
}

func TestAFileOfTheContentStoreComesFromTheServers(t *testing.T) {
	hash := sha512Of(large)
	var asked []string
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("If-Range"))
		w.Header().Set("ETag", `"`+hash+`"`)
		if len(asked) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			w.Write(large[:len(large)/2])
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(large))
	}
	one, other := newMachine(t, t.TempDir(), serve), newMachine(t, t.TempDir(), serve)
	m := newMachine(t, t.TempDir(), nil)
	m.stored = from(one, other)
	c := m.config(machineconfig.StoredSource(hash), hash, "")
	err := m.fetch(c)
	if err == nil || !strings.Contains(err.Error(), "downloading the content store, sha512-") ||
		strings.Contains(err.Error(), ".invalid") {
		t.Fatalf("it says %v", err)
	}
	m.open() // Another process continues, from another server.
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
	if len(asked) != 2 || asked[0] != "/node/content/"+hash+" " || asked[1] != "/node/content/"+hash+` "`+hash+`"` {
		t.Errorf("it requested %q", asked)
	}
	if resolved := machineconfig.RemoteFiles(m.fetcher().Resolve(c)); len(resolved) != 1 ||
		resolved[0].Hash != sha256Of(large) {
		t.Errorf("it resolves to %v", resolved)
	}
	if err := m.fetcher().Confirm("rendered-1", c); err != nil {
		t.Error(err)
	}
	born := newMachine(t, t.TempDir(), nil)
	os.MkdirAll(born.dir+"/opt", 0o755)
	os.WriteFile(born.dir+"/opt/large", large, 0o644)
	if err := born.fetch(c); err != nil {
		t.Errorf("a machine that has the file by Ignition: %v", err)
	}
	born.has(large)
	alone := newMachine(t, t.TempDir(), nil)
	if err := alone.fetch(c); err == nil || !strings.Contains(err.Error(), "only its nodes can read it") {
		t.Errorf("a machine without a cluster says %v", err)
	}
}

// TestACrashLosesNothing kills the daemon before each system call of a download that the server interrupts once, and
// lets another process continue. A file of the content store comes from two servers.
func TestACrashLosesNothing(t *testing.T) {
	for _, compression := range []string{"", "gzip", "stored"} {
		body, stored := large, compression == "stored"
		if compression == "gzip" {
			body = zipped(large)
		}
		server := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		})
		other := newMachine(t, t.TempDir(), server.server.Config.Handler.ServeHTTP)
		crashes := 0
		for n := 1; ; n++ {
			m := newMachine(t, t.TempDir(), nil)
			m.stored = from(server, other)
			m.server = server.server
			calls := 0
			m.root.Trap(func(call, path string) error {
				if calls++; calls >= n {
					return errors.New("crashed")
				}
				return nil
			})
			c := m.config(server.server.URL, sha512Of(large), strings.TrimSuffix(compression, "stored"))
			if stored {
				c = m.config(machineconfig.StoredSource(sha512Of(large)), sha512Of(large), "")
			}
			err := m.fetch(c)
			m.open()
			all, _, bad := m.root.ContentStore().Digests()
			if bad != nil {
				t.Fatal(bad)
			}
			for hash, d := range all {
				data, _ := os.ReadFile(m.dir + host.ContentDir + "/" + string(d))
				if sha512Of(data) != hash && sha256Of(data) != hash {
					t.Fatalf("after %d calls, wrong contents have the name %s", n, hash)
				}
			}
			if again := m.fetch(c); again != nil {
				t.Fatalf("after %d calls: %v", n, again)
			}
			m.has(large)
			if err == nil {
				break
			}
			crashes++
		}
		if crashes < 8 {
			t.Errorf("there were %d crashes", crashes)
		}
		t.Logf("compression %q: %d crashes, no loss", compression, crashes)
	}
}

// smallDisk returns a directory with 4 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root can mount a small disk: run the tests as root")
		}
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestAFullDiskKeepsItsReserve(t *testing.T) {
	dir := smallDisk(t)
	sized := true
	m := newMachine(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if sized {
			w.Header().Set("Content-Length", fmt.Sprint(8<<20))
		}
		w.Write(make([]byte, 8<<20))
	})
	c := m.config(m.server.URL, sha512Of(make([]byte, 8<<20)), "")
	if err := m.fetch(c); err == nil || !strings.Contains(err.Error(), "the disk of "+host.ContentDir+
		" is full: 4 MiB are free, 16 MiB are needed") {
		t.Errorf("it says %v", err)
	}
	sized = false
	if err := m.fetch(c); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it says %v", err)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if err := m.fetch(c); err != nil {
		t.Errorf("with space again, it says %v", err)
	}
}

// A file that Ignition downloaded onto a disk without space for a second copy is as the config says, so it is no drift.
func TestTheDigestIsKnownWithoutSpaceForACopy(t *testing.T) {
	dir := smallDisk(t)
	data := make([]byte, 3<<20)
	m := newMachine(t, dir, nil)
	os.MkdirAll(dir+"/opt", 0o755)
	os.WriteFile(dir+"/opt/large", data, 0o644)
	c := m.config("https://127.0.0.1:1/file", sha512Of(data), "")
	for range 2 {
		at := plan.Config{Name: "rendered-a", Config: c}
		if err := m.fetcher().Keep(at); err == nil ||
			!strings.Contains(err.Error(), "/opt/large: the disk of "+host.ContentDir+" is full") {
			t.Errorf("it says %v", err)
		}
		if is := machineconfig.RemoteFiles(m.fetcher().Resolve(c))[0].Hash; is != sha256Of(data) {
			t.Errorf("it resolves to %s", is)
		}
		if complete, _, err := m.root.ContentStore().Digests(); err != nil || len(complete) > 0 {
			t.Errorf("the store has %v, %v", complete, err)
		}
		m.open()
	}
	if err := m.fetch(c); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("it says %v", err)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if err := m.fetcher().Keep(plan.Config{Name: "rendered-a", Config: c}); err != nil {
		t.Error(err)
	}
	m.has(data)
}

func TestADownloadEndsWithItsCaller(t *testing.T) {
	m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) {
		w.Write(large[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.fetcher().Fetch(ctx, m.config(m.server.URL, sha512Of(large), ""), func(p fetch.Progress) error {
		if p.Have > 0 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	_, err = m.fetcher().Fetch(t.Context(), m.config(m.server.URL, sha512Of(large), ""), func(fetch.Progress) error {
		return fetch.ErrStop
	})
	if !errors.Is(err, fetch.ErrStop) {
		t.Errorf("it says %v", err)
	}
}
