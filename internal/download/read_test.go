package download_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	store "github.com/google/go-containerregistry/pkg/registry"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
)

// world is a registry behind TLS with a token service of its own, and the requests that it got.
type world struct {
	*httptest.Server
	host string
	// store is the registry, and login the credentials that its token service demands; empty for none.
	store http.Handler
	login string
	seen  []string
	// realm replaces the address of the token service, and manifest the manifests of the registry.
	realm    string
	manifest []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: store.New(store.Logger(log.New(io.Discard, "", 0)))}
	w.Server = httptest.NewTLSServer(w)
	t.Cleanup(w.Close)
	w.host = strings.TrimPrefix(w.URL, "https://")
	w.realm = w.URL + "/token"
	return w
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.seen = append(w.seen, r.URL.Path)
	switch {
	case r.URL.Path == "/token":
		user, password, _ := r.BasicAuth()
		if w.login != "" && user+":"+password != w.login {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(out, `{"token": %q}`, "for "+r.FormValue("service")+" "+r.FormValue("scope"))
	case r.Header.Get("Authorization") != "Bearer for here repository:tools/x:pull":
		out.Header().Set("WWW-Authenticate", `Bearer realm="`+w.realm+`",service="here",scope="anything"`)
		out.WriteHeader(http.StatusUnauthorized)
	case w.manifest != nil && strings.Contains(r.URL.Path, "/manifests/"):
		out.Write(w.manifest)
	default:
		w.store.ServeHTTP(out, r)
	}
}

// push puts blobs and a manifest of them into the registry, as `oras push` does, and returns the artifact.
func (w *world) push(t *testing.T, tag string, files ...[]byte) machineconfig.Artifact {
	t.Helper()
	do := func(method, path string, body []byte, contentType string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		a := httptest.NewRecorder()
		w.store.ServeHTTP(a, r)
		if a.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Code, a.Body)
		}
	}
	var layers []string
	for _, f := range append([][]byte{[]byte("{}")}, files...) {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(f))
		do(http.MethodPost, "/v2/tools/x/blobs/uploads/?digest="+url.QueryEscape(digest), f, "application/octet-stream")
		layers = append(layers, fmt.Sprintf(`{"mediaType": "application/octet-stream", "digest": %q, "size": %d}`,
			digest, len(f)))
	}
	manifest := []byte(`{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": ` +
		layers[0] + `, "layers": [` + strings.Join(layers[1:], ",") + `]}`)
	do(http.MethodPut, "/v2/tools/x/manifests/"+tag, manifest, "application/vnd.oci.image.manifest.v1+json")
	return machineconfig.Artifact{
		Registry: w.host, Repository: "tools/x", Tag: tag,
		Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(manifest)),
	}
}

type client struct{ *http.Client }

func (c client) Send(ctx context.Context, address string, headers map[string]string) (download.RegistryAnswer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return download.RegistryAnswer{}, err
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	a, err := c.Do(r)
	if err != nil {
		return download.RegistryAnswer{}, err
	}
	return download.RegistryAnswer{Status: a.StatusCode, Length: a.ContentLength, Header: a.Header, Body: a.Body}, nil
}

func (w *world) reader(logins download.Logins) download.RegistryReader {
	return download.RegistryReader{Client: client{w.Client()}, Logins: logins}
}

func read(t *testing.T, r download.RegistryReader, a machineconfig.Artifact, headers map[string]string) (int, string,
	error,
) {
	t.Helper()
	answer, err := r.Open(t.Context(), a, headers)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.Status, string(text), err
}

func TestAFileOfARegistry(t *testing.T) {
	w := newWorld(t)
	a := w.push(t, "v1", []byte("the contents of a file"))
	status, text, err := read(t, w.reader(nil), a, nil)
	if status != 200 || text != "the contents of a file" || err != nil {
		t.Fatalf("%d %q %v", status, text, err)
	}
	status, text, err = read(t, w.reader(nil), a, map[string]string{"Range": "bytes=4-"})
	if status != 206 || text != "contents of a file" || err != nil {
		t.Errorf("the rest: %d %q %v", status, text, err)
	}
	found, err := w.reader(nil).Resolve(t.Context(), machineconfig.Artifact{
		Registry:   a.Registry,
		Repository: a.Repository, Tag: "v1",
	})
	if found != a || err != nil {
		t.Errorf("the tag is %v, %v", found, err)
	}
}

func TestCredentialsGoToTheTokenService(t *testing.T) {
	w := newWorld(t)
	w.login = "robot:hush"
	a := w.push(t, "v1", []byte("private"))
	if _, _, err := read(t, w.reader(nil), a, nil); err == nil || !strings.Contains(err.Error(), "pull secret") {
		t.Errorf("without credentials: %v", err)
	}
	for sentence, c := range map[string]struct {
		at, login string
		ok        bool
	}{
		"for the registry":         {w.host, "robot:hush", true},
		"for the repository":       {w.host + "/tools/x", "robot:hush", true},
		"for another repository":   {w.host + "/tools/y", "robot:hush", false},
		"for a longer name":        {w.host + "/tool", "robot:hush", false},
		"for another registry":     {"other.example.com", "robot:hush", false},
		"with the form of docker":  {"https://" + w.host + "/v1/", "robot:hush", true},
		"with a password that had": {w.host, "robot:old", false},
	} {
		logins, err := download.ParseLogins(fmt.Appendf(nil, `{"auths": {"broken": {"auth": "%%"}, %q: {"auth": %q}}}`,
			c.at, base64.StdEncoding.EncodeToString([]byte(c.login))))
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := read(t, w.reader(logins), a, nil)
		if (err == nil && text == "private") != c.ok {
			t.Errorf("credentials %s: %q, %v", sentence, text, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("credentials %s: the error has the password: %v", sentence, err)
		}
	}
	if _, err := download.ParseLogins([]byte("hush")); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("no JSON: %v", err)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	w := newWorld(t)
	a := w.push(t, "v1", []byte("one"))
	two := w.push(t, "two", []byte("one"), []byte("two"))
	none := w.push(t, "none")
	missing := a
	missing.Digest = "sha256:" + strings.Repeat("0", 64)
	for sentence, c := range map[string]struct {
		a        machineconfig.Artifact
		realm    string
		manifest string
		want     string
	}{
		"two layers":                    {a: two, want: "the artifact has 2 layers"},
		"no layer":                      {a: none, want: "the artifact has 0 layers"},
		"no such artifact":              {a: missing, want: "the registry has no artifact, or hides it"},
		"a token service without https": {a: a, realm: "http://token.example.com/", want: "without https"},
		"a token service with a user":   {a: a, realm: "https://u:p@" + w.host + "/token", want: "without https"},
		"another manifest":              {a: a, manifest: `{"layers": []}`, want: "another manifest than the digest names"},
		"a manifest without end":        {a: a, manifest: strings.Repeat(" ", 5<<20), want: "more than"},
	} {
		w.realm, w.manifest = w.URL+"/token", nil
		if c.realm != "" {
			w.realm = c.realm
		}
		if c.manifest != "" {
			w.manifest = []byte(c.manifest)
		}
		if _, _, err := read(t, w.reader(nil), c.a, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", sentence, err, c.want)
		}
	}
	// A tag has no digest that could protect from these.
	for manifest, want := range map[string]string{
		`{"manifests": [{}]}`:                   "an index of several manifests",
		`[`:                                     "not JSON",
		`{"layers": [{"digest": "../../etc"}]}`: "the digest of the layer is not",
		`{"layers": [{"digest": "sha256:../x"}]}`: "the digest of the layer is not",
	} {
		w.realm, w.manifest = w.URL+"/token", []byte(manifest)
		if _, err := w.reader(nil).Resolve(t.Context(), a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", manifest, err, want)
		}
	}
	w.Close()
	var is *download.StatusError
	if _, _, err := read(t, w.reader(nil), a, nil); err == nil || errors.As(err, &is) {
		t.Errorf("away: %v", err)
	}
}
