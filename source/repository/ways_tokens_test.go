package repository_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// appWays has a GitHub App, with a server that answers as GitHub's documentation says.
func appWays(t *testing.T) chapter {
	git := newGitHub(t)
	app := chapterSecret{}
	for k, v := range git.secret {
		app[k] = string(v)
	}
	host := app["hosts"]
	// broken answers requests for tokens with a status. It echoes the request.
	broken := func(code int, header ...string) string {
		return git.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://evil.example/?"+marker)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, marker, r.Header.Get("Authorization"))
		}))
	}
	names := data{host: "GIT"}
	at := func(name string, code int, header ...string) way {
		other := broken(code, header...)
		names[other] = "GIT"
		return way{name: name, url: "https://" + other + "/cfg", secret: app.with("hosts", other)}
	}
	url := "https://" + host + "/cfg"
	return chapter{"https: GitHub App", names, []way{
		{name: "An app", url: url, secret: app.with()},
		at("A key of another app", 401), // the server writes the Date of its answer
		at("A clock that is an hour off", 401, "Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)),
		at("A suspended installation", 403),
		at("An installation that does not exist", 404),
		at("An app without the right to read", 422),
		at("A limit of requests", 429),
		at("An API that redirects", 307),
		at("An API that fails", 502),
		at("An API that answers with a page", 201),
		{name: "A password as well", url: url, secret: app.with("username", userName, "password", password)},
		{name: "No private key", url: url, secret: app.with("githubAppPrivateKey", "")},
		{name: "A private key that is not PEM", url: url, secret: app.with("githubAppPrivateKey", "S3CR3T")},
		{name: "The name of the app in place of its ID", url: url, secret: app.with("githubAppID", "my app")},
		{name: "The name of the owner in place of the installation's ID", url: url, secret: app.with("githubAppInstallationID", "octo")},
		{name: "The API of another host", url: url, secret: app.with("githubAppBaseURL", "https://evil.example/api/v3")},
		{name: "An API without TLS", url: url, secret: app.with("githubAppBaseURL", "http://"+host+"/api/v3")},
		{name: "ssh with an app", url: "git@github.com:team/cfg", secret: app.with()},
		{name: "No list of hosts", url: url, secret: app.with("hosts", "")},
		{name: "A list of other hosts", url: url, secret: app.with("hosts", "github.com")},
		{name: "A key in another spelling", url: url, secret: app.with("githubAppId", "4711")},
	}, nil}
}

// artifactRegistry is a registry with one artifact, team/cfg:1.0.0, which has the files of newRepository.
func artifactRegistry(t *testing.T) http.Handler {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	put := func(method, path, kind string, body []byte) {
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	blob := func(kind string, raw []byte) map[string]any {
		sum := sha256.Sum256(raw)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		put(http.MethodPost, "/v2/team/cfg/blobs/uploads/?digest="+digest, "application/octet-stream", raw)
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(raw)}
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 2, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "a\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": kind, "config": blob("application/vnd.oci.empty.v1+json", []byte("{}")),
		"layers": []any{blob("application/vnd.oci.image.layer.v1.tar", files.Bytes())},
	})
	if err != nil {
		t.Fatal(err)
	}
	put(http.MethodPut, "/v2/team/cfg/manifests/1.0.0", kind, raw)
	return handler
}

// registryWays has OCI registries: with passwords, and with token services.
func registryWays(t *testing.T) chapter {
	own, other := issue(t, soon(), "127.0.0.1"), issue(t, soon(), "127.0.0.1")
	artifacts := artifactRegistry(t)
	host := serveTLS(t, guarded(artifacts), own, "")
	forbidden := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, marker, http.StatusForbidden)
	}), own, "")
	page := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>"+marker)
	}), own, "")
	tokens := serveTLS(t, guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token":%q}`, token)
	})), own, "")
	service := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			artifacts.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+tokens+`/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	}), own, "")
	tunnels := new(atomic.Int64)
	proxy := connectProxy(t, routes{}, nil, tunnels)
	all := strings.Join([]string{host, forbidden, page, service}, " ")
	s := chapterSecret{"username": userName, "password": password, "ca.crt": own.certificate, "hosts": all}
	url, tag := "oci://"+host+"/team/cfg", v1alpha1.GitRef{Tag: "1.0.0"}
	names := data{
		host: "REGISTRY", forbidden: "FORBIDDEN", page: "PAGE", tokens: "TOKENS", service: "REGISTRY",
		strings.TrimPrefix(proxy, "http://"): "PROXY",
	}
	return chapter{"oci", names, []way{
		{name: "A password", url: url, secret: s.with(), ref: tag},
		{name: "A range of versions", url: url, secret: s.with(), ref: v1alpha1.GitRef{SemVer: "~1.0"}},
		{name: "A token as bearerToken", url: "oci://" + service + "/team/cfg", secret: s.with("username", "", "password", "", "bearerToken", token), ref: tag},
		{name: "A token as bearerToken, for a registry that requires a password", url: url, secret: s.with("username", "", "password", "", "bearerToken", token), ref: tag},
		{name: "A user name without a password", url: url, secret: s.with("password", ""), ref: tag},
		{name: "A token service on another host that the Secret names", url: "oci://" + service + "/team/cfg", secret: s.with("hosts", all+" "+tokens), ref: tag},
		{name: "A token service on another host that the Secret does not name", url: "oci://" + service + "/team/cfg", secret: s.with(), ref: tag},
		{name: "A token service that refuses the password", url: "oci://" + service + "/team/cfg", secret: s.with("hosts", all+" "+tokens, "password", "S3CR3T-wrong"), ref: tag},
		{name: "A password, through an HTTP proxy", url: url, secret: s.with(), ref: tag, proxy: data{"address": proxy, "username": userName, "password": password}},
		{name: "A wrong password of an HTTP proxy", url: url, secret: s.with(), ref: tag, proxy: data{"address": proxy, "username": userName, "password": "S3CR3T-wrong"}},
		{name: "No credentials", url: url, secret: data{"ca.crt": own.certificate}, ref: tag},
		{name: "A wrong password", url: url, secret: s.with("password", "S3CR3T-wrong"), ref: tag},
		{name: "Credentials that may not pull", url: "oci://" + forbidden + "/team/cfg", secret: s.with(), ref: tag},
		{name: "No list of hosts", url: url, secret: s.with("hosts", ""), ref: tag},
		{name: "No authority", url: url, secret: s.with("ca.crt", ""), ref: tag},
		{name: "Another authority", url: url, secret: s.with("ca.crt", other.certificate), ref: tag},
		{name: "A key for ssh", url: url, secret: s.with("identity", "S3CR3T"), ref: tag},
		{name: "A GitHub App", url: url, secret: s.with("githubAppID", "4711"), ref: tag},
		{name: "A tag that does not exist", url: url, secret: s.with(), ref: v1alpha1.GitRef{Tag: "2.0.0"}},
		{name: "No tag, where the registry has no latest", url: url, secret: s.with()},
		{name: "A range without a version", url: url, secret: s.with(), ref: v1alpha1.GitRef{SemVer: "~2"}},
		{name: "A branch", url: url, secret: s.with(), ref: v1alpha1.GitRef{Branch: "main"}},
		{name: "A repository that does not exist", url: "oci://" + host + "/team/nope", secret: s.with(), ref: tag},
		{name: "A tag in the URL", url: url + ":1.0.0", secret: s.with(), ref: tag},
		{name: "Capital letters in the URL", url: "oci://" + host + "/Team/cfg", secret: s.with(), ref: tag},
		{name: "The address of a web page", url: "oci://" + page + "/team/cfg", secret: s.with(), ref: tag},
		{name: "An address where nothing listens", url: "oci://127.0.0.1:1/team/cfg", secret: data{"ca.crt": own.certificate}, ref: tag},
	}, func(t *testing.T) {
		if tunnels.Load() == 0 {
			t.Error("no connection went through the proxy")
		}
	}}
}
