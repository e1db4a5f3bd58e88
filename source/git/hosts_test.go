package git_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git"
)

// loopbackSecret returns credentials for plain http to a server of a test, which it names.
func loopbackSecret(url string) map[string][]byte {
	return map[string][]byte{
		"username": []byte(user), "password": []byte(password),
		"hosts": []byte(strings.Split(strings.TrimPrefix(url, "http://"), "/")[0]),
	}
}

// TestCredentialsGoOnlyToTheHostsOfTheirSecret: whoever edits a GitSource chooses its URL and the Secret's name.
func TestCredentialsGoOnlyToTheHostsOfTheirSecret(t *testing.T) {
	signer, key := newKey(t)
	type secret = map[string]string
	login := func(more secret) secret {
		s := secret{"username": user, "password": password}
		for k, v := range more {
			s[k] = v
		}
		return s
	}
	ssh := secret{"identity": armored(t, key, ""), "known_hosts": knownLine(t, "127.0.0.1:22", signer)}
	missing, wrong, plain := "does not name the hosts for its credentials", "does not name ",
		"does not send credentials over http://"
	for name, test := range map[string]struct {
		url      string
		secret   secret
		required bool
		words    string // empty: allowed
	}{
		"a list with the host":                               {"https://git.example.com/cfg", login(secret{"hosts": "git.example.com"}), true, ""},
		"a list of several, in other letters":                {"https://git.example.com/cfg", login(secret{"hosts": "other.example.com,\n Git.Example.com\n"}), true, ""},
		"a list with host and port":                          {"https://git.example.com:8443/cfg", login(secret{"hosts": "git.example.com:8443"}), true, ""},
		"a list with the standard port":                      {"https://git.example.com/cfg", login(secret{"hosts": "git.example.com:443"}), true, ""},
		"a list with an IPv6 address":                        {"https://[2001:db8::1]/cfg", login(secret{"hosts": "2001:db8::1"}), true, ""},
		"a list with an IPv6 address and a port":             {"https://[2001:db8::1]:8443/cfg", login(secret{"hosts": "[2001:db8::1]:8443"}), true, ""},
		"no list":                                            {"https://git.example.com/cfg", login(nil), true, missing + `, so the controller does not send them: add the line "hosts: git.example.com" below stringData`},
		"no list, a bearer token":                            {"https://git.example.com:8443/cfg", secret{"bearerToken": token}, true, `add the line "hosts: git.example.com:8443"`},
		"no list where the owner of the Secret sets the URL": {"https://git.example.com/cfg", login(nil), false, ""},
		"a list that the owner of the Secret wrote counts":   {"https://evil.example/cfg", login(secret{"hosts": "git.example.com"}), false, wrong + "evil.example"},
		"an empty list":                                      {"https://git.example.com/cfg", login(secret{"hosts": ""}), true, wrong + "git.example.com"},
		"another host":                                       {"https://evil.example/cfg", login(secret{"hosts": "git.example.com"}), true, wrong + "evil.example"},
		"a host below":                                       {"https://x.git.example.com/cfg", login(secret{"hosts": "git.example.com"}), true, wrong + "x.git.example.com"},
		"another port":                                       {"https://git.example.com:8443/cfg", login(secret{"hosts": "git.example.com"}), true, wrong + "git.example.com:8443"},
		"a user of the host's name":                          {"https://git.example.com:x@evil.example/cfg", login(secret{"hosts": "git.example.com"}), true, wrong + "evil.example"},
		"plain http":                                         {"http://git.example.com/cfg", login(secret{"hosts": "git.example.com"}), true, plain},
		"plain http, credentials in the URL":                 {"http://me:pass-word@git.example.com/cfg", nil, false, plain},
		"plain http without credentials":                     {"http://git.example.com/cfg", nil, true, ""},
		"plain http to loopback, listed":                     {"http://127.0.0.1:3000/cfg", login(secret{"hosts": "127.0.0.1:3000"}), true, ""},
		"plain http to loopback, not listed":                 {"http://127.0.0.1:3000/cfg", login(nil), false, plain},
		"plain http to a name for loopback":                  {"http://localhost:3000/cfg", login(secret{"hosts": "localhost:3000"}), true, plain},
		"an authority alone is no credential":                {"https://git.example.com/cfg", secret{"ca.crt": string(authority(t))}, true, ""},
		"ssh: known_hosts names the hosts":                   {"git@git.example.com:cfg", ssh, true, ""},
		"ssh: a list that is there counts":                   {"git@evil.example:cfg", secret{"identity": ssh["identity"], "known_hosts": ssh["known_hosts"], "hosts": "git.example.com"}, true, wrong + "evil.example"},
		"a path needs none":                                  {"/srv/cfg.git", login(nil), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for k, v := range test.secret {
				data[k] = []byte(v)
			}
			_, err := newRemote(git.Config{URL: test.url, Secret: data, HostsRequired: test.required})
			if test.words == "" && err != nil {
				t.Fatalf("the credentials are refused: %v", err)
			}
			if test.words != "" {
				wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, test.words)
			}
		})
	}
}

// TestAWrongAnswerStaysThere: the same for services that speak no HTTP, and for those that pretend to be git.
func TestAWrongAnswerStaysThere(t *testing.T) {
	const leak = "INTERNAL-4711"
	head := func(kind string) string {
		return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-git-upload-pack-" + kind + "\r\n\r\n"
	}
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	hash := strings.Repeat("a", 40)
	version2 := packet("version 2\n")
	for name, test := range map[string]struct{ first, second string }{
		"another protocol":           {"SSH-2.0-" + leak + "\r\n", ""},
		"a status that is no number": {"HTTP/1.1 " + leak + "\r\n\r\n", ""},
		"a header without a colon":   {"HTTP/1.1 200 OK\r\n" + leak + "\r\n\r\n", ""},
		"a wrong length of the body": {"HTTP/1.1 200 OK\r\nContent-Length: " + leak + "\r\n\r\n", ""},
		"another transfer encoding":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + leak + "\r\n\r\n", ""},
		"wrong chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" +
			"Content-Type: application/x-git-upload-pack-advertisement\r\n\r\n" + leak + "\r\n", ""},
		"no packet":                     {head("advertisement") + leak, ""},
		"an unknown service":            {head("advertisement") + packet("# "+leak+"\n") + "0000", ""},
		"version 0: no hash":            {head("advertisement") + packet(leak+leak+leak+leak+leak), ""},
		"version 0: no space":           {head("advertisement") + packet(hash+leak), ""},
		"version 0: no capabilities":    {head("advertisement") + packet(hash+" "+leak), ""},
		"version 0: a wrong ref":        {head("advertisement") + packet(hash+" HEAD\x00\n") + packet(hash+" "+leak+" "+leak), ""},
		"version 0: a wrong shallow":    {head("advertisement") + packet(hash+" HEAD\x00\n") + packet("shallow "+leak), ""},
		"version 2: another format":     {head("advertisement") + version2 + packet("object-format="+leak) + "0000", ""},
		"version 2: no packet":          {head("advertisement") + version2 + leak, ""},
		"version 2: no ref":             {head("advertisement") + version2 + "0000", head("result") + packet(leak)},
		"version 2: a ref without hash": {head("advertisement") + version2 + "0000", head("result") + packet(leak+" refs/heads/x")},
		"version 2: a wrong peeled hash": {
			head("advertisement") + version2 + "0000",
			head("result") + packet(hash+" refs/tags/x peeled:"+leak),
		},
		"version 2: refs that are no packets": {head("advertisement") + version2 + "0000", head("result") + leak},
	} {
		t.Run(name, func(t *testing.T) {
			service := listen(t)
			t.Cleanup(func() { service.Close() })
			go func() {
				for {
					c, err := service.Accept()
					if err != nil {
						return
					}
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
						answer := test.first
						if r.Method == http.MethodPost {
							answer = test.second
						}
						_, _ = io.WriteString(c, answer)
					}
					c.Close()
				}
			}()
			_, err := remote(t, "http://"+service.Addr().String()+"/cfg.git", nil).List(t.Context())
			if err == nil || strings.Contains(err.Error(), "4711") || strings.Contains(err.Error(), "INTERNAL") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestWhatAServiceAnswersStaysThere: a URL may lead to any service that the controller reaches, and the status is read
// by many. No byte of an answer that is not git's own appears in an error.
func TestWhatAServiceAnswersStaysThere(t *testing.T) {
	const leak = "INTERNAL-4711"
	for _, status := range []int{200, 201, 301, 302, 307, 400, 401, 403, 404, 418, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", leak)
				w.Header().Set("Location", "http://"+r.Host+"/?"+leak)
				w.WriteHeader(status)
				fmt.Fprint(w, leak)
			}))
			defer service.Close()
			_, err := remote(t, service.URL+"/cfg.git", nil).List(t.Context())
			if err == nil || strings.Contains(err.Error(), leak) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
