package git_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git"
)

func TestARemoteThatAsksToWaitIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		after string
		want  time.Duration
		words string
	}{
		"a limit of requests, in seconds":     {http.StatusTooManyRequests, "120", 2 * time.Minute, "limits the requests"},
		"a limit of requests without a time":  {http.StatusTooManyRequests, "", 0, "limits the requests"},
		"a server that is away":               {http.StatusServiceUnavailable, "30", 30 * time.Second, "does not serve requests now"},
		"a wait of days":                      {http.StatusServiceUnavailable, "999999999", time.Hour, "does not serve requests now"},
		"a wait that is longer than a number": {http.StatusServiceUnavailable, "99999999999999999999999", 0, "does not serve requests now"},
		"a negative wait":                     {http.StatusServiceUnavailable, "-5", 0, "does not serve requests now"},
		"a date in the past":                  {http.StatusServiceUnavailable, "Wed, 21 Oct 2015 07:28:00 GMT", 0, "does not serve requests now"},
		"a date in a far future":              {http.StatusServiceUnavailable, "Wed, 21 Oct 2099 07:28:00 GMT", time.Hour, "does not serve requests now"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", test.after)
				http.Error(w, "request id 4711", test.code)
			}))
			defer s.Close()
			_, err := remote(t, s.URL+"/cfg.git", nil).List(t.Context())
			wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, test.words)
			if got := fault.Of(err, "").After; got != test.want {
				t.Errorf("the wait is %s, not %s", got, test.want)
			}
			if text := strings.ReplaceAll(err.Error(), s.URL, ""); strings.Contains(text, "4711") ||
				strings.Contains(text, test.after) && test.after != "" {
				t.Errorf("the text varies with each answer: %v", err)
			}
		})
	}
}

func TestARepositoryWithSHA256IsNamedAsSuch(t *testing.T) {
	r := newRepo(t)
	r.git(r.root, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", filepath.Join(r.root, "new.git"))
	work := filepath.Join(r.root, "newwork")
	r.git(r.root, "init", "-q", "-b", "main", "--object-format=sha256", work)
	r.git(work, "commit", "-q", "--allow-empty", "-m", "one")
	r.git(work, "push", "-q", filepath.Join(r.root, "new.git"), "HEAD")
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for _, remote := range []*git.Remote{
		remote(t, web.URL+"/new.git", web.secret(nil)),
		remote(t, "ssh://git@"+shell.addr+"/new.git", shell.secret(nil)),
		remote(t, filepath.Join(r.root, "new.git"), nil),
	} {
		_, err := remote.List(t.Context())
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidTree, "SHA-256 object names, which are not supported")
	}
}

func TestTheErrorAboutAHostKeyHasTheFingerprints(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	shell := serveSSH(t, r.root, false)
	other, _ := newKey(t)
	offered, _, _, _, err := ssh.ParseAuthorizedKey([]byte(shell.known[strings.Index(shell.known, " ")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	url := "ssh://git@" + shell.addr + "/cfg.git"
	has := "the server has ssh-ed25519 " + ssh.FingerprintSHA256(offered)
	_, err = remote(t, url, shell.secret(map[string]string{"known_hosts": knownLine(t, shell.addr, other)})).
		List(t.Context())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, has+"; known_hosts has ssh-ed25519 "+
		ssh.FingerprintSHA256(other.PublicKey()))
	_, err = remote(t, url, shell.secret(map[string]string{"known_hosts": knownLine(t, "127.0.0.1:1", other)})).
		List(t.Context())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, has)
}
