package install

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli"
)

// TestTheNewestRelease asks a real https server.
func TestTheNewestRelease(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if len(r.URL.RawQuery) > 0 || r.Header.Get("Authorization") != "" || r.UserAgent() != "bunsen" {
				t.Errorf("the request says more than its address: %v %v", r.URL, r.Header)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	var reached bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	for sentence, test := range map[string]struct {
		version string
		server  http.HandlerFunc
		code    int
		want    string
	}{
		"a newer release":                  {"v1.2.3", answer(200, `{"tag_name":"v1.3.0"}`), 1, "A newer release exists: v1.3.0"},
		"the newest release":               {"v1.3.0", answer(200, `{"tag_name":"v1.3.0"}`), 0, "No newer release exists"},
		"ten comes after nine":             {"v1.9.0", answer(200, `{"tag_name":"v1.10.0"}`), 1, "A newer release exists: v1.10.0"},
		"a release after its candidate":    {"v1.3.0-rc.1", answer(200, `{"tag_name":"v1.3.0"}`), 1, "A newer release"},
		"a build after the newest release": {"v1.3.0-14-gabcdef0-dirty", answer(200, `{"tag_name":"v1.3.0"}`), 0, "No newer"},
		"a build of a commit":              {"806c246", answer(200, `{"tag_name":"v1.3.0"}`), 0, "The newest release is v1.3.0"},
		"a build without a version":        {"dev", answer(200, `{"tag_name":"v1.3.0"}`), 0, "without a release"},
		"no release at all":                {"v1.0.0", answer(404, `{}`), 3, "has no release"},
		"too many requests":                {"v1.0.0", answer(403, `{}`), 3, "try again in an hour"},
		"a server in trouble":              {"v1.0.0", answer(500, ``), 3, "answers with 500"},
		"a page instead of a feed":         {"v1.0.0", answer(200, `<html>log in</html>`), 3, "does a proxy ask for a login"},
		"a tag that is no version":         {"v1.0.0", answer(200, `{"tag_name":"v1\n::error::x"}`), 3, "is no version"},
		"a redirect to another host":       {"v1.0.0", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, 3, "is not followed"},
		"a redirect to http":               {"v1.0.0", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://"+r.Host, http.StatusFound) }, 3, "is not followed"},
		"a redirect to itself without end": {"v1.0.0", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 3, "is not followed"},
		"a redirect to another of its paths": {"v1.0.0", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/moved" {
				http.Redirect(w, r, "/moved", http.StatusMovedPermanently)
				return
			}
			_, _ = io.WriteString(w, `{"tag_name":"v2.0.0"}`)
		}, 1, "v2.0.0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			server := httptest.NewTLSServer(test.server)
			defer server.Close()
			r := Releases{
				Version: test.version, Feed: server.URL, Timeout: time.Minute, Transport: server.Client().Transport,
			}
			checkAnswer(t, &r, test.code, test.want)
		})
	}
	if reached {
		t.Error("the other host got a request")
	}
}

func checkAnswer(t *testing.T, r *Releases, code int, want string) {
	t.Helper()
	var out bytes.Buffer
	err := r.Check(t.Context(), &out)
	var exit *cli.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.Code
	}
	text := out.String() + fmt.Sprint(err)
	if got != code || !strings.Contains(text, want) {
		t.Errorf("exit code %d, %s\nwant %d, %s", got, text, code, want)
	}
}

func TestAMachineWithoutTheFeed(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for sentence, test := range map[string]struct {
		feed string
		code int
		want string
	}{
		"nobody listens":        {"https://" + closed.Addr().String(), 3, "is this machine offline"},
		"nobody answers":        {"https://" + silent.Addr().String(), 3, "did not answer within"},
		"no such host":          {"https://releases.invalid/x", 3, "is this machine offline"},
		"a feed over http":      {"http://127.0.0.1/", 2, "want the URL of a feed"},
		"a feed that is a path": {"releases", 2, "want the URL of a feed"},
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
				t.Setenv(name, "")
			}
			r := Releases{Version: "v1.0.0", Feed: test.feed, Timeout: 200 * time.Millisecond}
			checkAnswer(t, &r, test.code, test.want)
		})
	}
}

// TestTheProxyOfTheEnvironment asks for a host that only the proxy knows.
func TestTheProxyOfTheEnvironment(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tag_name":"v1.3.0"}`)
	}))
	defer server.Close()
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.Host
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		go func() { _, _ = io.Copy(to, client) }()
		_, _ = io.Copy(client, to)
	}))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	transport, ok := overProxy().(*http.Transport)
	if !ok {
		t.Fatal("the transport is of another type")
	}
	pool := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	checkAnswer(t, &Releases{
		Version: "v1.0.0", Feed: "https://example.com/latest", Timeout: time.Minute, Transport: transport,
	}, 1, "v1.3.0")
	if asked != "CONNECT example.com:443" {
		t.Errorf("the proxy was asked %q", asked)
	}
}
