package oci_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/oci"
)

const (
	user     = "deploy"
	password = "S3CR3T-battery"
	fluxType = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// server is a real registry behind TLS and a password, or behind a token service.
type server struct {
	*httptest.Server
	t       *testing.T
	plain   http.Handler     // the registry itself
	before  http.HandlerFunc // answers in its place if it writes anything
	tokens  *httptest.Server // nil: a password
	entered []string         // the hosts that got credentials
}

func newServer(t *testing.T, tokens bool) *server {
	t.Helper()
	s := &server{t: t, plain: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	if tokens {
		s.tokens = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, p, ok := r.BasicAuth()
			if ok {
				s.entered = append(s.entered, r.Host)
			}
			if u != user || p != password {
				http.Error(w, p, http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"token":"tok-S3CR3T"}`)
		}))
		t.Cleanup(s.tokens.Close)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if s.before != nil {
		answer := httptest.NewRecorder()
		answer.Code = 0
		if s.before(answer, r); answer.Code != 0 {
			for k, v := range answer.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
	}
	u, p, _ := r.BasicAuth()
	switch {
	case s.tokens == nil && (u != user || p != password):
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"INTERNAL `+p+`"}]}`, http.StatusUnauthorized)
	case s.tokens != nil && r.Header.Get("Authorization") != "Bearer tok-S3CR3T":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.tokens.URL+`/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s.plain.ServeHTTP(w, r)
	}
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "https://") }

func (s *server) secret(override map[string]string) map[string][]byte {
	out := map[string][]byte{
		"username": []byte(user), "password": []byte(password), "hosts": []byte(s.host()),
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
	for k, v := range override {
		out[k] = []byte(v)
		if v == "" {
			delete(out, k)
		}
	}
	return out
}

// put sends a request of a client that pushes.
func (s *server) put(method, path, kind string, body []byte) {
	s.t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	s.plain.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer pushes a blob and returns its descriptor.
func (s *server) layer(kind string, raw []byte, notes map[string]string) map[string]any {
	s.put(http.MethodPost, "/v2/team/cfg/blobs/uploads/?digest="+digestOf(raw), "application/octet-stream", raw)
	return map[string]any{"mediaType": kind, "digest": digestOf(raw), "size": len(raw), "annotations": notes}
}

// push pushes a manifest and returns its digest.
func (s *server) push(tag string, notes map[string]string, layers ...map[string]any) string {
	s.t.Helper()
	config := s.layer("application/vnd.oci.empty.v1+json", []byte("{}"), nil)
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": layers, "annotations": notes,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(http.MethodPut, "/v2/team/cfg/manifests/"+tag, "application/vnd.oci.image.manifest.v1+json", raw)
	return digestOf(raw)
}

// sign pushes a signature as cosign does.
func (s *server) sign(key crypto.Signer, digest, statementOf string) {
	s.t.Helper()
	text := []byte(`{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":"` +
		statementOf + `"},"type":"cosign container image signature"},"optional":null}`)
	sum, with := sha256.Sum256(text), crypto.Hash(crypto.SHA256)
	signed := sum[:]
	if _, ok := key.(ed25519.PrivateKey); ok {
		signed, with = text, crypto.Hash(0)
	}
	raw, err := key.Sign(rand.Reader, signed, with)
	if err != nil {
		s.t.Fatal(err)
	}
	note := map[string]string{oci.SignatureAnnotation: base64.StdEncoding.EncodeToString(raw)}
	s.push(strings.Replace(digest, ":", "-", 1)+".sig", nil, s.layer(oci.StatementType, text, note))
}

func zip(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pack returns a tar with one file, a link and a path that leads out.
func pack(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "pools/a.bu", Size: int64(len(content)), Mode: 0o644},
		{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/etc"},
		{Typeflag: tar.TypeReg, Name: "../out", Mode: 0o644},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			fmt.Fprint(w, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (s *server) config(ref v1alpha1.GitRef) oci.Config {
	return oci.Config{URL: "oci://" + s.host() + "/team/cfg", Ref: ref, Secret: s.secret(nil), HostsRequired: true}
}

// follow lists, picks and fetches, as the controller does.
func follow(t *testing.T, c oci.Config, path string) (source.Tree, error) {
	t.Helper()
	at, err := source.ParseURL(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := access.NewConnect(at, c.Secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	c.Transport = transport
	remote, err := oci.New(c)
	if err != nil {
		return source.Tree{}, err
	}
	refs, err := remote.List(t.Context())
	if err != nil {
		return source.Tree{}, err
	}
	picked, err := source.Pick(refs, c.Ref)
	if err != nil {
		return source.Tree{}, err
	}
	return remote.Tree(t.Context(), picked, path, source.Destination{Dir: t.TempDir()})
}

func TestAnArtifactGivesTheTreeOfItsCommit(t *testing.T) {
	s := newServer(t, false)
	work := t.TempDir()
	run := func(args ...string) string {
		c := exec.Command("git", args...)
		c.Dir = work
		c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada",
			"GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("init", "-q", "-b", "main")
	for name, mode := range map[string]os.FileMode{
		"infra/pools/worker/a.bu": 0o644, "infra/run.sh": 0o755,
		"README": 0o644,
	} {
		p := filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(name), mode),
			os.Chmod(p, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("README", filepath.Join(work, "infra", "link")); err != nil {
		t.Fatal(err)
	}
	run("add", "-A")
	run("commit", "-q", "-m", "one")
	hash := strings.TrimSpace(run("rev-parse", "HEAD"))
	notes := map[string]string{
		"org.opencontainers.image.revision":    "main@sha1:" + hash,
		"org.opencontainers.image.source":      "https://git.example.org/cfg",
		"org.opencontainers.image.created":     "2026-03-04T05:06:07Z",
		"org.opencontainers.image.description": "chrony: two servers\nmore",
	}
	digest := s.push("v1.4.0", notes, s.layer(fluxType, zip(t, []byte(run("archive", "HEAD"))), nil))
	local, err := git.New(git.Config{URL: work})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "infra", "infra/pools"} {
		want, err := local.Tree(t.Context(), source.Picked{Hash: hash}, path, source.Destination{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range []v1alpha1.GitRef{{Tag: "v1.4.0"}, {SemVer: "~1.4"}, {Digest: digest}} {
			got, err := follow(t, s.config(ref), path)
			if err != nil {
				t.Fatalf("%v: %v", ref, err)
			}
			if got.Digest != want.Digest || fmt.Sprint(got.Refused) != fmt.Sprint(want.Refused) {
				t.Errorf("%q, %v: the digest is %s, refused %v; git's are %s, %v", path, ref, got.Digest, got.Refused,
					want.Digest, want.Refused)
			}
			wantRevision := map[bool]string{true: digest, false: "v1.4.0@" + digest}[ref.Digest != ""]
			c := got.Commit
			if c.Revision().String() != wantRevision || c.Author != "https://git.example.org/cfg" ||
				c.Subject != "chrony: two servers (git main@sha1:"+hash+")" ||
				!c.Time.Equal(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)) {
				t.Errorf("the commit is %+v", c)
			}
			if again, err := source.ParseRevision(c.Revision().String()); err != nil || again != c.Revision() {
				t.Errorf("the revision %s is read as %v, %v", c.Revision(), again, err)
			}
		}
	}
}

func TestWhichTagIsFollowed(t *testing.T) {
	s := newServer(t, false)
	digests := map[string]string{}
	for _, tag := range []string{"v1.4.0", "v1.4.2", "1.5.0", "latest", "nightly"} {
		digests[tag] = s.push(tag, nil, s.layer(fluxType, zip(t, pack(t, tag)), nil))
	}
	for name, test := range map[string]struct {
		ref  v1alpha1.GitRef
		want string // the tag, or the words of the error
	}{
		"nothing":             {v1alpha1.GitRef{}, "latest"},
		"a tag":               {v1alpha1.GitRef{Tag: "nightly"}, "nightly"},
		"a range":             {v1alpha1.GitRef{SemVer: "~1.4"}, "v1.4.2"},
		"any version":         {v1alpha1.GitRef{SemVer: ">=1"}, "1.5.0"},
		"a range without any": {v1alpha1.GitRef{SemVer: "~2"}, "no tag matches"},
		"no range":            {v1alpha1.GitRef{SemVer: "x.y.z.w"}, "is not a range of versions"},
		"no such tag":         {v1alpha1.GitRef{Tag: "v9"}, `the registry has no artifact "v9"`},
		"no such digest":      {v1alpha1.GitRef{Digest: "sha256:" + strings.Repeat("0", 64)}, "the registry has no artifact"},
		"a branch":            {v1alpha1.GitRef{Branch: "main"}, "an OCI repository has no branches and commits"},
		"a commit":            {v1alpha1.GitRef{Commit: strings.Repeat("0", 40)}, "an OCI repository has no branches and commits"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := follow(t, s.config(test.ref), "")
			if err != nil && (digests[test.want] != "" || !strings.Contains(err.Error(), test.want) ||
				fault.Of(err, "").Kind != fault.Stalled) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if err == nil && tree.Commit.Revision().String() != test.want+"@"+digests[test.want] {
				t.Errorf("got %s, want %s", tree.Commit.Revision(), test.want)
			}
		})
	}
}

// TestWhereCredentialsGo: a user who edits a GitSource chooses the registry, and the registry names the token service.
func TestWhereCredentialsGo(t *testing.T) {
	layer := func(s *server) { s.push("v1", nil, s.layer(fluxType, zip(t, pack(t, "a")), nil)) }
	for name, test := range map[string]struct {
		tokens   bool
		override map[string]string // HOST and TOKENS stand for the hosts of both servers
		words    string
	}{
		"a password":                    {false, nil, ""},
		"a wrong password":              {false, map[string]string{"password": "S3CR3T-other"}, "the registry requires credentials, or rejects these"},
		"no credentials":                {false, map[string]string{"username": "", "password": ""}, "the registry requires credentials, or rejects these"},
		"no list of hosts":              {false, map[string]string{"hosts": ""}, "does not name the hosts for its credentials"},
		"another host":                  {false, map[string]string{"hosts": "evil.example"}, "does not name 127.0.0.1"},
		"a token service":               {true, map[string]string{"hosts": "HOST TOKENS"}, ""},
		"a token service, wrong":        {true, map[string]string{"hosts": "HOST TOKENS", "password": "S3CR3T-other"}, "the registry requires credentials, or rejects these"},
		"a token service elsewhere":     {true, nil, "which the key hosts of the Secret does not name: add it if you trust it"},
		"an anonymous token":            {true, map[string]string{"username": "", "password": ""}, "the registry requires credentials, or rejects these"},
		"a bearer token":                {true, map[string]string{"username": "", "password": "", "bearerToken": "tok-S3CR3T"}, ""},
		"a bearer token and a password": {true, map[string]string{"bearerToken": "tok-S3CR3T"}, "holds both bearerToken and username or password"},
		"an unknown key":                {false, map[string]string{"identity": "S3CR3T"}, `keys that Bunsen does not read: "identity"`},
		"an unknown authority":          {false, map[string]string{"ca.crt": ""}, "put its certificate authority into the Secret as ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, test.tokens)
			layer(s)
			c := s.config(v1alpha1.GitRef{Tag: "v1"})
			override := map[string]string{}
			for k, v := range test.override {
				v = strings.ReplaceAll(v, "HOST", s.host())
				if s.tokens != nil {
					v = strings.ReplaceAll(v, "TOKENS", strings.TrimPrefix(s.tokens.URL, "https://"))
				}
				override[k] = v
			}
			c.Secret = s.secret(override)
			_, err := follow(t, c, "")
			if test.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if why := fault.Of(err, ""); err == nil || !strings.Contains(err.Error(), test.words) ||
				why.Kind != fault.Stalled || why.Reason != v1alpha1.ReasonAuthentication {
				t.Errorf("got %v, want %q", err, test.words)
			}
			if err != nil && (strings.Contains(err.Error(), "S3CR3T") || strings.Contains(err.Error(), "INTERNAL")) {
				t.Errorf("the error gives a secret away: %v", err)
			}
			if name == "a token service elsewhere" && len(s.entered) > 0 {
				t.Errorf("%v got the password", s.entered)
			}
		})
	}
}

// TestAHostileRegistry: no content with another digest is used, and no text of the registry appears in an error.
func TestAHostileRegistry(t *testing.T) {
	const leak = "INTERNAL-4711"
	other := zip(t, pack(t, "other"))
	for name, test := range map[string]struct {
		before func(*server) http.HandlerFunc
		words  string
	}{
		"another manifest": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
					w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
					w.WriteHeader(http.StatusOK)
					fmt.Fprint(w, `{"schemaVersion":2}`)
				}
			}
		}, ""},
		"another layer": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
					w.WriteHeader(http.StatusOK)
					_, _ = w.Write(other)
				}
			}
		}, ""},
		"an error": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusTeapot)
				fmt.Fprint(w, `{"errors":[{"code":"`+leak+`","message":"`+leak+`"}]}`)
			}
		}, "does not answer the request (418"},
		"a limit": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
		}, "limits the requests"},
		"a refusal": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
		}, "need the right to pull"},
		"a page": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				fmt.Fprint(w, leak)
			}
		}, "is not one of an OCI registry"},
		"a redirect to http": {func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/"+leak)
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		}, "leads to an address without https"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, false)
			s.push("v1", nil, s.layer(fluxType, zip(t, pack(t, "a")), nil))
			s.before = test.before(s)
			tree, err := follow(t, s.config(v1alpha1.GitRef{Tag: "v1"}), "")
			if err == nil || !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), leak) ||
				tree.Root != "" {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}

// TestARedirectCarriesNoCredentialsAway: registries redirect to storage on other hosts.
func TestARedirectCarriesNoCredentialsAway(t *testing.T) {
	s := newServer(t, false)
	raw := zip(t, pack(t, "a"))
	s.push("v1", nil, s.layer(fluxType, raw, nil))
	var got string
	storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = w.Write(raw)
	}))
	defer storage.Close()
	s.before = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.Header().Set("Location", storage.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
	if _, err := follow(t, s.config(v1alpha1.GitRef{Tag: "v1"}), ""); err != nil || got != "" {
		t.Errorf("the storage got %q, %v", got, err)
	}
}

func TestArtifactsOfOtherKinds(t *testing.T) {
	s := newServer(t, false)
	good := zip(t, pack(t, "a"))
	bomb := zip(t, make([]byte, 600<<20))
	for name, test := range map[string]struct {
		layers []map[string]any
		words  string
	}{
		"a tar":            {[]map[string]any{s.layer("application/vnd.oci.image.layer.v1.tar", pack(t, "a"), nil)}, ""},
		"an image's layer": {[]map[string]any{s.layer("application/vnd.oci.image.layer.v1.tar+gzip", good, nil)}, ""},
		"Docker's layer":   {[]map[string]any{s.layer("application/vnd.docker.image.rootfs.diff.tar.gzip", good, nil)}, ""},
		"no layer":         {nil, "has 0 layers, not one"},
		"two layers":       {[]map[string]any{s.layer(fluxType, good, nil), s.layer(fluxType, good, nil)}, "has 2 layers, not one"},
		"zstd":             {[]map[string]any{s.layer("application/vnd.oci.image.layer.v1.tar+zstd", good, nil)}, "push the folder as tar.gz"},
		"a document":       {[]map[string]any{s.layer("text/\x1byaml", []byte("a: b"), nil)}, `is of type "text/yaml"`},
		"no gzip":          {[]map[string]any{s.layer(fluxType, pack(t, "a"), nil)}, "damaged or incomplete: gzip: invalid header"},
		"a bomb":           {[]map[string]any{s.layer(fluxType, bomb, nil)}, ""},
		"a wrong size":     {[]map[string]any{{"mediaType": fluxType, "digest": digestOf(good), "size": 1 << 40}}, "at most 268435456"},
		"a wrong digest":   {[]map[string]any{{"mediaType": fluxType, "digest": "md5:x", "size": 1}}, "has no SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.push("v1", nil, test.layers...)
			tree, err := follow(t, s.config(v1alpha1.GitRef{Tag: "v1"}), "")
			switch {
			case name == "a bomb":
				// An archive of zeros is an archive without entries. The limit of its size must end the reading.
				if err != nil && !strings.Contains(err.Error(), "larger than the limit") {
					t.Error(err)
				}
			case test.words == "" && (err != nil || len(tree.Refused) != 2):
				t.Errorf("got %v, %v", tree.Refused, err)
			case test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words) ||
				fault.Of(err, "").Reason != v1alpha1.ReasonInvalidTree):
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}

func TestSignatures(t *testing.T) {
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	prime, _ := rsa.GenerateKey(rand.Reader, 2048)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := func(k crypto.Signer) []byte {
		der, err := x509.MarshalPKIXPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	trusted, err := oci.ParseKeys(map[string][]byte{"ada.pub": public(curve), "bob.pub": append(public(edwards),
		public(prime)...)})
	if err != nil {
		t.Fatal(err)
	}
	other := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		sign  func(s *server, digest string)
		words string
		by    string
	}{
		"ECDSA":              {func(s *server, d string) { s.sign(curve, d, d) }, "", "ada.pub (SHA256:"},
		"Ed25519":            {func(s *server, d string) { s.sign(edwards, d, d) }, "", "bob.pub (SHA256:"},
		"RSA":                {func(s *server, d string) { s.sign(prime, d, d) }, "", "bob.pub (SHA256:"},
		"none":               {func(*server, string) {}, "the artifact is not signed: sign it with one of the keys ada.pub", ""},
		"a stranger's":       {func(s *server, d string) { s.sign(stranger, d, d) }, "another key made the signature", ""},
		"for another":        {func(s *server, d string) { s.sign(curve, d, other) }, "the signature is for another artifact, sha256:000000000000", ""},
		"of another's place": {func(s *server, _ string) { s.sign(curve, other, other) }, "the artifact is not signed", ""},
		"no base64": {func(s *server, d string) {
			s.push(strings.Replace(d, ":", "-", 1)+".sig", nil, s.layer(oci.StatementType, []byte("{}"),
				map[string]string{oci.SignatureAnnotation: "%"}))
		}, "the signature is not base64", ""},
		"no statement": {func(s *server, d string) {
			s.push(strings.Replace(d, ":", "-", 1)+".sig", nil, s.layer("text/plain", []byte("{}"), nil))
		}, "there is none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, false)
			digest := s.push("v1", nil, s.layer(fluxType, zip(t, pack(t, name)), nil))
			test.sign(s, digest)
			blobs := 0
			s.before = func(_ http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, digestOf(zip(t, pack(t, name)))) {
					blobs++
				}
			}
			c := s.config(v1alpha1.GitRef{Tag: "v1"})
			c.Keys = &trusted
			tree, err := follow(t, c, "")
			if test.words == "" && (err != nil || !strings.HasPrefix(tree.Commit.Signer, test.by)) {
				t.Errorf("signed by %q, %v", tree.Commit.Signer, err)
			}
			if test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words) ||
				fault.Of(err, "").Reason != v1alpha1.ReasonSignature || blobs > 0) {
				t.Errorf("got %v after %d reads of the files, want %q", err, blobs, test.words)
			}
		})
	}
	for name, raw := range map[string][]byte{
		"": nil, "ssh": []byte("ssh-ed25519 AAAA"),
		"private": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"}),
		"damaged": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY"}),
	} {
		secret := map[string][]byte{name: raw}
		if name == "" {
			secret = nil
		}
		if _, err := oci.ParseKeys(secret); err == nil || fault.Of(err, "").Reason != v1alpha1.ReasonSignature ||
			!strings.Contains(err.Error(), "cosign.pub") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
