package http

import (
	"bytes"
	"context"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/content"
)

// stored is a file of the content store, and unread the hash of one that the server cannot read.
var (
	stored       = bytes.Repeat([]byte("large "), 300_000)
	storedHash   = hashOf(stored)
	unread       = hashOf([]byte("unread"))
	artifactName = "oci://registry.example.com:5000/tools/tool@sha256:" + strings.Repeat("0a", 32)
)

func hashOf(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

type closing struct{ *bytes.Reader }

func (closing) Close() error { return nil }

func openStored(_ context.Context, hash string) (io.ReadSeekCloser, int64, error) {
	if hash != storedHash && hash != artifactName {
		return nil, 0, fmt.Errorf("%w: reading contentchunks %s: geheim", mcs.ErrContentUnavailable, hash)
	}
	return closing{bytes.NewReader(stored)}, int64(len(stored)), nil
}

func withArtifact(name string) *mcfgv1.MachineConfig {
	return withIgnition(name, `"storage":{"files":[{"path":"/opt/tool","contents":{"source":"`+
		strings.Replace(artifactName, "@", ":v1@", 1)+`","verification":{"hash":"`+storedHash+`"}}}]}`)
}

func withFile(name, hash string) *mcfgv1.MachineConfig {
	return withIgnition(name, `"storage":{"files":[{"path":"/opt/tool","contents":{"source":"`+
		machineconfig.StoredSource(hash)+`","verification":{"hash":"`+hash+`"}}}]}`)
}

// storing are options of a server with a content store, whose pool `large` has a file of it.
func storing(t testing.TB) (Options, *tokens) {
	t.Helper()
	pools := mcs.NewPools()
	pools.SetContentStore()
	for pool, mc := range map[string]*mcfgv1.MachineConfig{
		"large":    withFile("rendered-large-1", storedHash),
		"registry": withArtifact("rendered-registry-1"), "worker": rendered("rendered-worker-1", "a"),
	} {
		if err := pools.Set(pool, mc); err != nil {
			t.Fatal(err)
		}
	}
	pools.SetSynced()
	known := &tokens{}
	return Options{
		Source: pools, Tokens: known, Log: quiet, Now: atNoon, BootstrapTokens: &minter{},
		Content: Content{Open: openStored, Identity: func() content.Identity {
			return content.Identity{
				Keys: [][]byte{[]byte("key")}, CA: []byte("the CA"),
				Covers: func(host string) bool { return host == "host" },
			}
		}},
	}, known
}

// contentRequest is the request that Ignition sends for the file in a config.
type contentRequest struct{ source, name, value string }

func requestOf(t testing.TB, config string) contentRequest {
	t.Helper()
	var is struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct {
					Source      string
					HTTPHeaders []struct{ Name, Value string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(config), &is); err != nil {
		t.Fatal(err)
	}
	for _, f := range is.Storage.Files {
		if f.Path == "/opt/tool" && len(f.Contents.HTTPHeaders) == 1 {
			return contentRequest{f.Contents.Source, f.Contents.HTTPHeaders[0].Name, f.Contents.HTTPHeaders[0].Value}
		} else if f.Path == "/opt/tool" {
			return contentRequest{source: f.Contents.Source}
		}
	}
	t.Fatalf("it has no file: %s", config)
	return contentRequest{}
}

// TestANewMachineReadsAFileWithTheGrantOfItsConfig is for a version with headers, and for one without. Reading the file
// uses no token, and no log has the grant.
func TestANewMachineReadsAFileWithTheGrantOfItsConfig(t *testing.T) {
	for _, version := range []string{"3.5.0", "3.0.0"} {
		var audit, log bytes.Buffer
		o, known := storing(t)
		o.Audit, o.Log = &audit, slog.New(slog.NewTextHandler(&log, nil))
		once := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "large", Uses: 1})
		h, counts := Routes(o)
		got := ask(h, "GET", "/config/large", "Authorization", bearer(once), "Accept",
			"application/vnd.coreos.ignition+json;version="+version)
		if got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: a cache may keep the grant", version)
		}
		r := requestOf(t, text(t, got))
		u, err := url.Parse(r.source)
		if err != nil || u.Host != "host:22623" {
			t.Fatalf("%s: it comes from %s: %v", version, r.source, err)
		}
		for range 2 {
			file := ask(h, "GET", u.RequestURI(), r.name, r.value)
			if body := text(t, file); file.StatusCode != 200 || body != string(stored) ||
				file.Header.Get("ETag") != `"`+storedHash+`"` {
				t.Fatalf("%s: %d %d bytes %q", version, file.StatusCode, len(body), file.Header)
			}
		}
		if len(known.uses()) != 1 {
			t.Errorf("%s: the token was used %d times", version, len(known.uses()))
		}
		grant := strings.TrimPrefix(r.value, v1alpha1.ContentGrantScheme)
		if grant == "" {
			grant = u.Query().Get("grant")
		}
		all := audit.String() + log.String()
		if grant == "" || strings.Contains(all, grant) || strings.Contains(all, strings.Split(grant, ".")[1]) ||
			!strings.Contains(all, storedHash) || !strings.Contains(all, `"access":"grant"`) ||
			!strings.Contains(all, `"pool":"large"`) {
			t.Errorf("%s: the logs say\n%s", version, all)
		}
		metrics := strings.Join(exposed(t, counts), "\n")
		if !strings.Contains(metrics, `content_requests_total{code="200"} 2`) || counts.Served() != 1 {
			t.Errorf("%s: the metrics say\n%s", version, metrics)
		}
	}
}

// TestAServerReadsOnlyTheArtifactOfTheGrant has what a client may request to let the server read another address.
func TestAServerReadsOnlyTheArtifactOfTheGrant(t *testing.T) {
	var log bytes.Buffer
	o, known := storing(t)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	var opened []string
	o.Content.Open = func(ctx context.Context, name string) (io.ReadSeekCloser, int64, error) {
		opened = append(opened, name)
		return openStored(ctx, name)
	}
	h, _ := Routes(o)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "registry"})
	r := requestOf(t, text(t, ask(h, "GET", "/config/registry", "Authorization", bearer(good))))
	at, ok := strings.CutPrefix(r.source, "https://host:22623")
	if !ok || at != "/content/oci/registry.example.com:5000/tools/tool@sha256:"+strings.Repeat("0a", 32) {
		t.Fatalf("it comes from %s", r.source)
	}
	stored := requestOf(t,
		text(t, ask(h, "GET", "/config/large", "Authorization",
			bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "large"})))))
	for _, c := range []struct {
		because, path, header string
		status                int
	}{
		{"the file of the config", at, r.value, 200},
		{"no grant", at, "", 401},
		{"a token", at, bearer(good), 401},
		{"another registry", strings.Replace(at, "registry.example.com:5000", "169.254.169.254", 1), r.value, 503},
		{"another port", strings.Replace(at, ":5000", ":6443", 1), r.value, 503},
		{"another repository", strings.Replace(at, "tools/tool", "tools/other", 1), r.value, 503},
		{"another digest", strings.Replace(at, "0a", "0b", 1), r.value, 503},
		{"a tag", strings.Replace(at, "@", ":v1@", 1), r.value, 404},
		{"no digest", strings.Split(at, "@")[0], r.value, 404},
		{"a user", strings.Replace(at, "/oci/", "/oci/user:password@", 1), r.value, 404},
		{"an escaped way out", strings.Replace(at, "tools", "..%2f..", 1), r.value, 404},
		{"the grant of a file of the content store", at, stored.value, 503},
		{"a file of the content store", "/content/" + storedHash, r.value, 503},
		{"the path for nodes", "/node" + at, r.value, 404},
	} {
		opened = nil
		got := ask(h, "GET", c.path, "Authorization", c.header)
		if got.StatusCode != c.status || (len(opened) == 1 && opened[0] == artifactName) != (c.status == 200) ||
			len(opened) > 1 {
			t.Errorf("%s: %d, and the server reads %q", c.because, got.StatusCode, opened)
		}
	}
	if grant := strings.TrimPrefix(r.value, v1alpha1.ContentGrantScheme); strings.Contains(log.String(),
		strings.Split(grant, ".")[1]) || !strings.Contains(log.String(), artifactName) {
		t.Errorf("the log says %s", log.String())
	}
}

// TestWithoutAGrantThereIsNoFile has what an attacker may send.
func TestWithoutAGrantThereIsNoFile(t *testing.T) {
	now := noon
	o, known := storing(t)
	o.Now = func() time.Time { return now }
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "large"})
	h, _ := Routes(o)
	r := requestOf(t, text(t, ask(h, "GET", "/config/large", "Authorization", bearer(good))))
	at := "/content/" + storedHash
	for _, c := range []struct {
		because, path, header string
		later                 time.Duration
		status                int
	}{
		{"the grant of the config", at, r.value, 0, 200},
		{"no grant", at, "", 0, 401},
		{"a token of the pool", at, bearer(good), 0, 401},
		{"the grant as a token", at, "Bearer " + strings.TrimPrefix(r.value, v1alpha1.ContentGrantScheme), 0, 401},
		{"a forged grant", at, strings.Replace(r.value, "large", "worker", 1), 0, 503},
		{"the grant of another file", "/content/" + unread, r.value, 0, 503},
		{"the grant at the path for nodes", "/node/content/" + storedHash, r.value, 0, 401},
		{"a hash in upper case", "/content/sha512-" + strings.ToUpper(storedHash[7:]), r.value, 0, 404},
		{"another directory", "/content/x/" + storedHash, r.value, 0, 404},
		{"an escaped path", "/content/%2e%2e%2f" + storedHash, r.value, 0, 404},
		{"a path of this machine", "/content/..%2f..%2fetc%2fpasswd", r.value, 0, 404},
		{"no name", "/content/", r.value, 0, 404},
		{"a day later", at, r.value, 23 * time.Hour, 200},
		{"after its end", at, r.value, 3 * time.Hour, 403},
	} {
		now = now.Add(c.later)
		got := ask(h, "GET", c.path, "Authorization", c.header)
		if body := text(t, got); got.StatusCode != c.status || (body == string(stored)) != (c.status == 200) ||
			strings.Contains(body, "geheim") {
			t.Errorf("%s: %d %.200q", c.because, got.StatusCode, body)
		}
	}
	if got := ask(h, "POST", at, "Authorization", r.value); got.StatusCode != 405 {
		t.Errorf("POST: %d", got.StatusCode)
	}
}

func TestGuessesOfGrantsAreLimited(t *testing.T) {
	o, _ := storing(t)
	o.Limits = Limits{Failures: Rate{PerSecond: 0.001, Burst: 2}}
	h, _ := Routes(o)
	var got []int
	for range 4 {
		got = append(got, ask(h, "GET", "/content/"+storedHash).StatusCode)
	}
	if fmt.Sprint(got) != "[401 401 503 503]" {
		t.Errorf("guesses are answered %v", got)
	}
}

// TestAPartOfAFile has what clients may request: parts, and conditions.
func TestAPartOfAFile(t *testing.T) {
	o, known := storing(t)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "large"})
	h, _ := Routes(o)
	r := requestOf(t, text(t, ask(h, "GET", "/config/large", "Authorization", bearer(good))))
	end, tag := len(stored), `"`+storedHash+`"`
	many := "bytes=0-0" + strings.Repeat(",1-1", 1500)
	for _, c := range []struct {
		because, method string
		headers         []string
		status          int
		want            []byte
	}{
		{"the rest", "GET", []string{"Range", fmt.Sprintf("bytes=%d-", end-7)}, 206, stored[end-7:]},
		{"the rest of the same version", "GET", []string{"Range", "bytes=100-", "If-Range", tag}, 206, stored[100:]},
		{"the rest of another version", "GET", []string{"Range", "bytes=100-", "If-Range", `"sha512-1"`}, 200, stored},
		{"the end", "GET", []string{"Range", "bytes=-3"}, 206, stored[end-3:]},
		{"more than there is", "GET", []string{"Range", "bytes=7-99999999999999"}, 206, stored[7:]},
		{"a part after the end", "GET", []string{"Range", fmt.Sprintf("bytes=%d-", end)}, 416, nil},
		{"a huge number", "GET", []string{"Range", "bytes=99999999999999999999999-"}, 416, nil},
		{"no range", "GET", []string{"Range", "bytes=a-b"}, 416, nil},
		{"many ranges", "GET", []string{"Range", many}, 200, stored},
		{"two ranges", "GET", []string{"Range", "bytes=0-1,5-6"}, 200, stored},
		{"what it has", "GET", []string{"If-None-Match", tag}, 304, nil},
		{"the head", "HEAD", nil, 200, nil},
		{"the head of a part", "HEAD", []string{"Range", "bytes=1-2"}, 206, nil},
	} {
		got := ask(h, c.method, "/content/"+storedHash, append([]string{"Authorization", r.value}, c.headers...)...)
		body := text(t, got)
		if got.StatusCode != c.status || c.status < 300 && body != string(c.want) {
			t.Errorf("%s: %d, %d bytes", c.because, got.StatusCode, len(body))
		}
		if c.status == 200 && got.Header.Get("Content-Length") != fmt.Sprint(end) {
			t.Errorf("%s: its length is %q", c.because, got.Header.Get("Content-Length"))
		}
	}
}

// contentOf answers for nodes: only node a may read the file.
func contentOf(_ context.Context, node, hash string) error {
	switch node {
	case "a":
		return nil
	case "away":
		return mcs.ErrAPIUnavailable
	}
	return &mcs.NotForNodeError{
		Node: node, Config: "file " + hash,
		Why: errors.New("no config that it may run names the file"),
	}
}

func TestANodeReadsTheFilesOfItsConfigs(t *testing.T) {
	audit := make(audits, 100)
	kubelets, machines := newAuthority(t, "kubelets"), newAuthority(t, "machines")
	cas, clients := &ClientCASet{}, believing(t, machines)
	if err := cas.Replace(kubelets.pem()); err != nil {
		t.Fatal(err)
	}
	o, _ := storing(t)
	o.ClientCAs, o.Audit = clients, audit
	o.Nodes = Nodes{CAs: cas, Configs: fleet{}, Content: contentOf}
	h, _ := Routes(o)
	server := start(t, Server{Handler: h, ClientCAs: clients, NodeCAs: cas})
	for _, c := range []struct {
		because string
		subject pkix.Name
		by      *authority
		hash    string
		status  int
		reason  string
	}{
		{"a file of its config", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, storedHash, 200, ""},
		{"a file that the server cannot read", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, unread, 503, "ContentUnavailable"},
		{"a file of other nodes", pkix.Name{CommonName: "system:node:b", Organization: kubelet}, &kubelets, storedHash, 403, "NotForNode"},
		{"an API server that is away", pkix.Name{CommonName: "system:node:away", Organization: kubelet}, &kubelets, storedHash, 503, "NoAnswer"},
		{"another client of the API server", pkix.Name{CommonName: "kubernetes-admin"}, &kubelets, storedHash, 401, "NoNode"},
		{"a certificate by the authority of machines", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &machines, storedHash, 401, "NoNode"},
		{"another name", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-1", 404, "NoContent"},
	} {
		r := fetch(t, server.client("127.0.0.9", c.by.issue(t, c.subject)), server.url(v1alpha1.NodeContentPath+c.hash))
		body := text(t, r)
		if r.StatusCode != c.status || r.Header.Get(v1alpha1.ReasonHeader) != c.reason ||
			(body == string(stored)) != (c.status == 200) || strings.Contains(body, "geheim") {
			t.Errorf("%s: %d %q %.200q", c.because, r.StatusCode, r.Header.Get(v1alpha1.ReasonHeader), body)
		}
		line := string(<-audit)
		if by := strings.Contains(line, `"by":"node"`); by != (c.status != 401 && c.status != 404) {
			t.Errorf("%s: the audit log has %s", c.because, line)
		}
		if strings.HasPrefix(c.hash, "sha512") && !strings.Contains(line, c.hash) {
			t.Errorf("%s: the audit log has %s", c.because, line)
		}
	}
}

// TestTheAddressInAConfigIsNotTheClientsChoice sends another host than those of the certificate.
func TestTheAddressInAConfigIsNotTheClientsChoice(t *testing.T) {
	o, known := storing(t)
	h, _ := Routes(o)
	for pool, want := range map[string]int{"large": http.StatusInternalServerError, "worker": http.StatusOK} {
		r := httptest.NewRequest("GET", "https://evil.example.com/config/"+pool, nil)
		r.Header.Set("Authorization", bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: pool})))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want || strings.Contains(w.Body.String(), "evil") {
			t.Errorf("pool %s: %d %s", pool, w.Code, w.Body)
		}
	}
}

func TestAServerWithoutAContentStoreAnswersSo(t *testing.T) {
	pools := mcs.NewPools()
	if err := pools.Set("large", withFile("rendered-large-1", storedHash)); err == nil {
		t.Error("it can be served")
	}
	pools.SetSynced()
	got := ask(openRoutes(pools), "GET", "/config/large")
	if body := text(t, got); got.StatusCode != 503 || !strings.Contains(body, "this server has no content store") ||
		!strings.Contains(body, "/opt/tool") {
		t.Errorf("%d %s", got.StatusCode, body)
	}
}

// TestASlowClientGetsAllOfAFile stops to read for longer than a config may take.
func TestASlowClientGetsAllOfAFile(t *testing.T) {
	o, known := storing(t)
	o.Now = nil
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{
		Pool:    "large",
		Expires: metav1.NewTime(time.Now().Add(time.Hour)),
	})
	is := o.Content.Identity()
	o.Content.Identity = func() content.Identity { is.Covers = func(string) bool { return true }; return is }
	h, _ := Routes(o)
	server := start(t, Server{Handler: h, Bounds: Bounds{
		Header: time.Second, Read: time.Second,
		Send: time.Second,
	}}, func(l net.Listener) net.Listener { return narrow{l} })
	client := server.client("127.0.0.9")
	get := func(url, header string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		got, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	r := requestOf(t, text(t, get(server.url("/config/large"), bearer(good))))
	got := get(r.source, r.value)
	first := make([]byte, 1)
	if _, err := io.ReadFull(got.Body, first); err != nil {
		t.Fatal(err)
	}
	<-time.After(1500 * time.Millisecond)
	rest, err := io.ReadAll(got.Body)
	if err != nil || string(first)+string(rest) != string(stored) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}

// TestTheHeadOfAConfigWithFilesCreatesNoBody: a machine chooses the host of its request, and each host has a body of
// its own. A HEAD uses no token up, so a token with one use could keep the server busy.
func TestTheHeadOfAConfigWithFilesCreatesNoBody(t *testing.T) {
	o, known := storing(t)
	h, _ := Routes(o)
	for pool, hasBody := range map[string]bool{"large": false, "registry": false, "worker": true} {
		token := bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: pool}))
		r := ask(h, "HEAD", "/config/"+pool, "Authorization", token)
		if r.StatusCode != http.StatusOK || (r.Header.Get("ETag") != "") != hasBody ||
			(r.Header.Get("Content-Length") != "") != hasBody || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d, %v", pool, r.StatusCode, r.Header)
		}
		if r := ask(h, "GET", "/config/"+pool, "Authorization", token); r.StatusCode != http.StatusOK {
			t.Errorf("%s: GET is answered %d", pool, r.StatusCode)
		}
	}
}
