package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcs"
)

// refusingCluster has an API server that refuses the first few.
func refusingCluster(t *testing.T, reason metav1.StatusReason, refusals int) (*Cluster, *[]corev1.Secret) {
	t.Helper()
	var got []corev1.Secret
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s corev1.Secret
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil || r.Method != http.MethodPost ||
			r.URL.Path != "/api/v1/namespaces/kube-system/secrets" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		got = append(got, s)
		w.Header().Set("Content-Type", "application/json")
		if len(got) <= refusals {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   "Failure", Reason: reason, Code: http.StatusConflict, Message: "refused",
			})
			return
		}
		w.WriteHeader(http.StatusCreated)
		s.APIVersion, s.Kind = "v1", "Secret"
		_ = json.NewEncoder(w).Encode(s)
	}))
	t.Cleanup(api.Close)
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)) }
	c, err := New(&rest.Config{Host: api.URL}, Options{Pools: mcs.NewPools(), Log: quiet, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return c, &got
}

func TestATokenWhoseIDIsTakenIsMintedAgain(t *testing.T) {
	c, got := refusingCluster(t, metav1.StatusReasonAlreadyExists, 2)
	text, err := c.CreateBootstrapToken(t.Context(), mcs.JoiningMachine{Pool: "worker", Address: "2001:db8::1"})
	if err != nil || !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(text) {
		t.Fatalf("%q, %v", text, err)
	}
	last := (*got)[2]
	if len(*got) != 3 || last.StringData["token-id"]+"."+last.StringData["token-secret"] != text ||
		(*got)[0].Name == last.Name {
		t.Errorf("%+v", *got)
	}
	if last.StringData["expiration"] != "2026-01-02T03:04:05Z" || last.StringData["description"] != "bunsen: for a "+
		"machine of pool worker, that asked from 2001:db8::1" {
		t.Errorf("%v", last.StringData)
	}
}

func TestATokenThatCannotBeMintedIsAnErrorWithoutIt(t *testing.T) {
	for reason, tries := range map[metav1.StatusReason]int{
		metav1.StatusReasonAlreadyExists: idAttempts,
		metav1.StatusReasonForbidden:     1,
	} {
		c, got := refusingCluster(t, reason, 1000)
		_, err := c.CreateBootstrapToken(t.Context(), mcs.JoiningMachine{Pool: "worker"})
		if err == nil || len(*got) != tries {
			t.Fatalf("%s: %v after %d tries, want %d", reason, err, len(*got), tries)
		}
		for _, s := range *got {
			if strings.Contains(err.Error(), s.StringData["token-secret"]) {
				t.Errorf("the error shows a secret: %v", err)
			}
		}
	}
}

func TestMintedTokensAreAllDifferent(t *testing.T) {
	seen, letters := map[string]bool{}, map[rune]int{}
	for range 20000 {
		text := randomText(tokenSecretLength)
		if seen[text] || len(text) != tokenSecretLength {
			t.Fatalf("%q", text)
		}
		seen[text] = true
		for _, c := range text {
			letters[c]++
		}
	}
	// 320,000 characters: about 8,889 of each of 36, give or take 94.
	for _, c := range alphabet {
		if n := letters[c]; n < 8300 || n > 9500 {
			t.Errorf("%c came %d times", c, n)
		}
	}
}

func TestEachReplicaHasALeaseOfItsOwn(t *testing.T) {
	for replica, want := range map[string]string{
		"machine-config-server-5d4-x2": "machine-config-server-machine-config-server-5d4-x2",
		"Host_1.example.com":           "machine-config-server-host-1.example.com",
		"a..":                          "machine-config-server-a",
		strings.Repeat("a", 300):       "machine-config-server-" + strings.Repeat("a", 231),
	} {
		if got := leaseName(replica); got != want {
			t.Errorf("%s: %s, want %s", replica, got, want)
		}
	}
}

func TestAReplicaThatIsCutOffForLongIsNotReady(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pools := mcs.NewPools()
	pools.SetSynced()
	b := &heartbeat{
		Cluster:  &Cluster{Options: Options{Pools: pools, Now: func() time.Time { return now }}},
		answered: now,
	}
	for _, c := range []struct {
		name  string
		after time.Duration
		err   error
		ready bool
	}{
		{"an answer", 0, nil, true},
		{"a short outage", cutOffAfter, errors.New("connection refused"), true},
		{"a long outage", time.Second, errors.New("connection refused"), false},
		{"an answer with an error", time.Second, apierrors.NewForbidden(schema.GroupResource{}, "a", nil), true},
	} {
		now = now.Add(c.after)
		if b.markAnswer(c.err); pools.Ready() != c.ready {
			t.Errorf("%s: ready is %t", c.name, pools.Ready())
		}
	}
}
