package tokens_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	sourcetokens "github.com/bunsen-os/bunsen/source/tokens"
)

var gcp = sourcetokens.CloudAccess{Provider: v1alpha1.ProviderGCP}

// TestATokenIsReplacedFiveMinutesBeforeItsEnd: until then, all sources share it. A failure is shared for a short time.
func TestATokenIsReplacedFiveMinutesBeforeItsEnd(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, test := range map[string]struct {
		life  int // seconds
		after time.Duration
		want  int64 // requests
	}{
		"before":                  {3599, 54 * time.Minute, 1},
		"five minutes before":     {3600, 55 * time.Minute, 2},
		"a token of four minutes": {240, 0, 2},
		"a token of a year":       {365 * 86400, 55 * time.Minute, 2},
		"a failure, at once":      {0, time.Second, 1},
		"a failure, later":        {0, 11 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"access_token":"token%d","expires_in":%d}`, requests.Add(1), test.life)
			}))
			defer s.Close()
			tokens := &sourcetokens.CloudTokens{Getenv: func(string) string {
				return strings.TrimPrefix(s.URL,
					"http://")
			}}
			for _, at := range []time.Time{now, now.Add(test.after)} {
				got, err := tokens.Credentials(t.Context(), gcp, nil, at)
				if (err == nil) != (test.life > 0) {
					t.Fatalf("got %v, %v", got, err)
				}
			}
			if requests.Load() != test.want {
				t.Errorf("%d requests", requests.Load())
			}
		})
	}
}

// TestARefusedTokenIsNotUsedAgain: the next call requests another one.
func TestARefusedTokenIsNotUsedAgain(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"token%d","expires_in":3600}`, requests.Add(1))
	}))
	defer s.Close()
	tokens := &sourcetokens.CloudTokens{Getenv: func(string) string { return strings.TrimPrefix(s.URL, "http://") }}
	first, err := tokens.Credentials(t.Context(), gcp, nil, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tokens.Forget(gcp, map[string][]byte{"password": []byte("another")})
	tokens.Forget(gcp, first)
	tokens.Forget(gcp, first)
	second, err := tokens.Credentials(t.Context(), gcp, nil, time.Unix(0, 0))
	if err != nil || string(second["password"]) != "token2" {
		t.Errorf("got %s, %v", second["password"], err)
	}
}

// TestALifetimeIsANumberOrAString: some services write the number of seconds as a string. Any other lifetime is no
// answer.
func TestALifetimeIsANumberOrAString(t *testing.T) {
	for written, isValid := range map[string]bool{
		`3600`: true, `"3600"`: true, `""`: false, `"soon"`: false,
		`3600.5`: false, `-1`: false, `null`: false, `1e400`: false,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"access_token":"token","expires_in":%s}`, written)
		}))
		tokens := &sourcetokens.CloudTokens{Getenv: func(string) string { return strings.TrimPrefix(s.URL, "http://") }}
		if _, err := tokens.Credentials(t.Context(), gcp, nil, time.Unix(0, 0)); (err == nil) != isValid {
			t.Errorf("expires_in %s: %v", written, err)
		}
		s.Close()
	}
}

// TestAFailureBehindOneProxyStaysThere: a source with a broken proxy must not stop the sources of the same provider
// with another one.
func TestAFailureBehindOneProxyStaysThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("projected"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := &sourcetokens.CloudTokens{Getenv: func(name string) string {
		return map[string]string{
			"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client",
			"AZURE_FEDERATED_TOKEN_FILE": file,
		}[name]
	}}
	broken, working := &http.Client{Transport: answer("")},
		&http.Client{Transport: answer(`{"access_token":"token","expires_in":3600}`)}
	now := time.Unix(0, 0)
	if _, err := tokens.Credentials(t.Context(), sourcetokens.CloudAccess{Provider: v1alpha1.ProviderAzure, Proxy: "broken"},
		broken, now); err == nil {
		t.Fatal("the broken proxy works")
	}
	got, err := tokens.Credentials(t.Context(), sourcetokens.CloudAccess{Provider: v1alpha1.ProviderAzure}, working,
		now)
	if err != nil || string(got["bearerToken"]) != "token" {
		t.Errorf("got %q, %v", got, err)
	}
}

// answer is the body of each answer; an empty one is a failed connection.
type answer string

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	if a == "" {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}
