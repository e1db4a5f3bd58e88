package http

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

var (
	quiet = slog.New(slog.DiscardHandler)
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func atNoon() time.Time { return noon }

func rendered(name, contents string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = name
	mc.Annotations = map[string]string{"bunsen.dev/revision": "main@sha1:01"}
	mc.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,` + contents +
			`"}}]}}`)
	return mc
}

func withIgnition(name, sections string) *mcfgv1.MachineConfig {
	mc := rendered(name, "")
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},` + sections + `}`)
	return mc
}

// marked is a config whose owner marks paths as secret.
func marked(mc *mcfgv1.MachineConfig, paths string) *mcfgv1.MachineConfig {
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.SecretPathsAnnotation, paths)
	return mc
}

// hush is what nobody may read who is not bound to a node.
const hush = "hush-hush-hush"

// filled has pools that serve (worker, infra), one with a secret file (secret), one whose secret cannot come later
// (locked), one with nothing rendered (new), one that is held (halted), one with a bad config, and one that old
// versions cannot say.
func filled(t testing.TB) *mcs.Pools {
	t.Helper()
	s := mcs.NewPools()
	for pool, mc := range map[string]*mcfgv1.MachineConfig{
		"worker": rendered("rendered-worker-1", "a"),
		"infra":  rendered("rendered-infra-1", "a"),
		"secret": marked(withIgnition("rendered-secret-1", `"storage":{"files":[{"path":"/etc/pki/tls/private/db.key",`+
			`"contents":{"source":"data:,`+hush+`"}}]}`), "/etc/pki/tls/private/"),
		"locked": withIgnition("rendered-locked-1", `"storage":{"luks":[{"name":"root","device":"/dev/a","keyFile":{"source":"data:,`+hush+`"}}]}`),
		"luks":   withIgnition("rendered-luks-1", `"storage":{"luks":[{"name":"root","device":"/dev/a","cex":{"enabled":true}}]}`),
		"new":    nil,
	} {
		if err := s.Set(pool, mc); err != nil {
			t.Fatal(err)
		}
	}
	bad := rendered("rendered-bad-1", "")
	bad.Spec.Config.Raw = []byte(`{"ignition":{"version":"2.2.0"}}`)
	if err := s.Set("bad", bad); err == nil {
		t.Fatal("the bad config was taken for a good one")
	}
	s.SetUnavailable("halted", "the rollout of rendered-halted-2 was halted")
	s.SetSynced()
	return s
}

// open are the options of a server that serves whoever asks.
func open(s Source) Options {
	return Options{Source: s, Access: Access{Open: true}, Log: quiet, Now: atNoon}
}

// openRoutes is a server that serves whoever asks.
func openRoutes(s Source) http.Handler {
	h, _ := Routes(open(s))
	return h
}

// tokens counts as the cluster does: what one sees of a token is what was counted last.
type tokens struct {
	mu    sync.Mutex
	known map[string]*v1alpha1.ProvisioningToken
	used  []v1alpha1.TokenUse
	away  error // the API server is away
	// random makes the tokens; nil: as they are made in truth.
	random io.Reader
}

func (k *tokens) Token(id string) *v1alpha1.ProvisioningToken {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[id]
}

func (k *tokens) Use(_ context.Context, id string, use v1alpha1.TokenUse) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away != nil {
		return k.away
	}
	now := k.known[id].DeepCopy()
	if now.Spec.Uses > 0 && now.Status.Used >= now.Spec.Uses {
		return &join.InvalidError{ID: id, Reason: join.UsedUp}
	}
	now.Status = join.AddUse(now.Status, use)
	k.known[id] = now
	k.used = append(k.used, use)
	return nil
}

func (k *tokens) uses() []v1alpha1.TokenUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// make makes a token that is good at noon.
func (k *tokens) make(t testing.TB, spec v1alpha1.ProvisioningTokenSpec) join.Token {
	t.Helper()
	random := k.random
	if random == nil {
		random = rand.Reader
	}
	made, err := join.NewToken(random)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Expires.IsZero() {
		spec.Expires = metav1.NewTime(noon.Add(time.Hour))
	}
	spec.Hash = made.Hash()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[string]*v1alpha1.ProvisioningToken{}
	}
	k.known[made.ID] = &v1alpha1.ProvisioningToken{ObjectMeta: metav1.ObjectMeta{Name: made.ID}, Spec: spec}
	return made
}

// minter makes bootstrap tokens that are all different, or none.
type minter struct {
	mu   sync.Mutex
	made []mcs.JoiningMachine
	err  error
}

func (m *minter) CreateBootstrapToken(_ context.Context, f mcs.JoiningMachine) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return "", m.err
	}
	m.made = append(m.made, f)
	return "abcdef." + strings.Repeat("0", 12) + string("0123456789"[len(m.made)/1000%10]) +
		string("0123456789"[len(m.made)/100%10]) +
		string("0123456789"[len(m.made)/10%10]) + string("0123456789"[len(m.made)%10]), nil
}

func (m *minter) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.made)
}

// joining makes a shelf serve bootstrap kubeconfigs.
func joining(t testing.TB, s *mcs.Pools) *mcs.Pools {
	t.Helper()
	// Of the pool whose config is bad the error is known already.
	_ = s.SetExtra(mcs.Extra{Join: &mcs.Join{Server: "https://api.example.com:6443", CA: []byte("a CA")}})
	return s
}

var errAway = errors.New("dial tcp 10.0.0.1:6443: connection refused")

func ask(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "https://host:22623"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bearer(t join.Token) string { return "Bearer " + t.String() }

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// lines are what was written, one object of JSON per line.
func lines(t testing.TB, written *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(written.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

const accept = "application/vnd.coreos.ignition+json;version="
