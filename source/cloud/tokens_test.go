package cloud_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/cloud"
)

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
			tokens := &cloud.Tokens{Getenv: func(string) string { return strings.TrimPrefix(s.URL, "http://") }}
			for _, at := range []time.Time{now, now.Add(test.after)} {
				got, err := tokens.Credentials(t.Context(), v1alpha1.ProviderGCP, nil, at)
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
	tokens := &cloud.Tokens{Getenv: func(string) string { return strings.TrimPrefix(s.URL, "http://") }}
	first, err := tokens.Credentials(t.Context(), v1alpha1.ProviderGCP, nil, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tokens.Forget(v1alpha1.ProviderGCP, map[string][]byte{"password": []byte("another")})
	tokens.Forget(v1alpha1.ProviderGCP, first)
	tokens.Forget(v1alpha1.ProviderGCP, first)
	second, err := tokens.Credentials(t.Context(), v1alpha1.ProviderGCP, nil, time.Unix(0, 0))
	if err != nil || string(second["password"]) != "token2" {
		t.Errorf("got %s, %v", second["password"], err)
	}
}
