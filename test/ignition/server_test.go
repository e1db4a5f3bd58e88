package ignition

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/http"
	"github.com/bunsen-os/bunsen/mcs/join"

	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/reconcile/render"
)

// server is ours, with everything that it is made of: TLS of its own CA, tokens of a file, closed to who has none. Only
// its clock is the test's.
type server struct {
	t       *testing.T
	dir     string
	address string
	ca      []byte
	pools   *mcs.Pools
	kept    map[string]*v1alpha1.ProvisioningToken
	daemons join.Binaries
	// open returns files of the content store; nil for a server without one.
	open func(ctx context.Context, hash string) (io.ReadSeekCloser, int64, error)

	mu      sync.Mutex
	now     time.Time
	answers []audited
	more    chan struct{} // closed, and made anew, with each answer
	stop    func()
}

// audited is what is read of a line of the audit log.
type audited struct {
	Action   string `json:"action"`
	Status   int    `json:"status"`
	Token    string `json:"token"`
	Version  string `json:"version"`
	Encoding string `json:"encoding"`
	Complete bool   `json:"complete"`
}

// newServer is one that does not run yet, at an address that stays its own.
func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, dir: t.TempDir(), address: l.Addr().String(), pools: mcs.NewPools(),
		kept: map[string]*v1alpha1.ProvisioningToken{}, now: time.Now(), more: make(chan struct{}),
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.pools.SetUnavailable("worker", "nothing is rendered yet")
	s.pools.SetSynced()
	if _, err := certs.OpenCertificates(filepath.Join(s.dir, "certificates"), []string{"127.0.0.1"},
		slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if s.ca, err = os.ReadFile(filepath.Join(s.dir, "certificates", certs.CAFile)); err != nil {
		t.Fatal(err)
	}
	return s
}

// start makes it answer, with what is in its files now.
func (s *server) start() {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	certificates, err := certs.OpenCertificates(filepath.Join(s.dir, "certificates"), []string{"127.0.0.1"}, log)
	if err != nil {
		s.t.Fatal(err)
	}
	var list bytes.Buffer
	for _, k := range s.kept {
		text, err := json.Marshal(k)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&list, "---\n%s\n", text)
	}
	tokensFile := filepath.Join(s.dir, "tokens.yaml")
	if err := os.WriteFile(tokensFile, list.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	tokens, err := files.OpenTokens(tokensFile, filepath.Join(s.dir, "uses"), log, s.clock)
	if err != nil {
		s.t.Fatal(err)
	}
	stored := http.Content{Open: s.open, Identity: func() content.Identity {
		return content.Identity{Keys: certificates.GrantKeys(), CA: certificates.CA(), Covers: certificates.Covers}
	}}
	handler, _ := http.Routes(http.Options{
		Source: s.pools, Tokens: tokens, Limits: http.DefaultLimits(),
		Daemons: s.daemons, Content: stored, Audit: s, Log: log, Now: s.clock,
	})
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- http.Server{Handler: handler, TLS: certificates.TLS(), Log: log}.Serve(ctx, listener)
	}()
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		if err := tokens.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.stop)
}

// restart takes up what changed in its files.
func (s *server) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

func (s *server) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// later moves its clock.
func (s *server) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Write takes a line of the audit log.
func (s *server) Write(line []byte) (int, error) {
	var a audited
	if err := json.Unmarshal(line, &a); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	close(s.more)
	s.more = make(chan struct{})
	return len(line), nil
}

// since are the answers from the n-th on, and how many there are in all.
func (s *server) since(n int) ([]audited, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]audited(nil), s.answers[n:]...), len(s.answers)
}

// await returns when there are n answers.
func (s *server) await(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, more := len(s.answers), s.more
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d answers, there are %d: %w", n, have, ctx.Err())
		}
	}
}

// grant makes a token; kept is what the server is given of it, once it is started again.
func (s *server) grant(g join.TokenOptions) (t join.Token, kept *v1alpha1.ProvisioningToken) {
	s.t.Helper()
	t, err := join.NewToken(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	kept = g.Object(t, s.clock())
	return t, kept
}

// pointer is what a machine is handed at birth.
func (s *server) pointer(t string, change ...func(*join.Pointer)) []byte {
	s.t.Helper()
	p := join.Pointer{
		Pool: "worker", Server: "https://" + s.address, CA: s.ca, Token: t,
		Version: join.DefaultPointerVersion,
	}
	for _, c := range change {
		c(&p)
	}
	raw, err := p.Ignition()
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// serve gives the pool a config with one of each kind of thing that a machine is made of.
func (s *server) serve() {
	s.t.Helper()
	if err := s.pools.Set("worker", poolConfig(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

// ourConfig is what machines of these tests are born with.
const ourConfig = `{"ignition":{"version":"3.5.0"},
 "passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVhc3k= someone"]}]},
 "storage":{"directories":[{"path":"/etc/app.d","mode":448}],
  "files":[{"path":"/etc/motd","mode":420,"overwrite":true,"contents":{"source":"data:,from%20our%20server%0A"}},
   {"path":"/etc/born/private.key","mode":384,"contents":{"source":"data:,nobody%20else's%0A"}},
   {"path":"/etc/born/large","mode":384,"contents":{"source":"data:;base64,LARGE"}}],
  "links":[{"path":"/etc/born/link","target":"/etc/motd"}]},
 "systemd":{"units":[{"name":"born.service","enabled":true,"contents":"[Unit]\nDescription=Born\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo yes >/run/born'\n[Install]\nWantedBy=multi-user.target\n"}]}}`

// poolConfig is the pool's config as the renderer makes it. Its owner marked the private key as secret.
func poolConfig(t *testing.T) *mcfgv1.MachineConfig {
	t.Helper()
	large := bytes.Repeat([]byte("0123456789abcde\n"), 8<<10) // more than a few packets
	raw := bytes.ReplaceAll([]byte(ourConfig), []byte("LARGE"), []byte(base64.StdEncoding.EncodeToString(large)))
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:   "50-born",
		Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
	}}
	mc.Spec.Config.Raw = raw
	r, err := render.Merge("worker", []*mcfgv1.MachineConfig{mc}, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return &mcfgv1.MachineConfig{TypeMeta: metav1.TypeMeta{
		APIVersion: mcfgv1.GroupVersion.String(),
		Kind:       "MachineConfig",
	}, ObjectMeta: metav1.ObjectMeta{
		Name:        r.Name,
		Annotations: map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/born/private.key"},
	}, Spec: r.Spec}
}
