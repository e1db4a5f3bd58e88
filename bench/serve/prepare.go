package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/mcs/join"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// The names of the two servers in tables.
const (
	oursName   = "ours"
	staticName = "static"
)

// pool is the pool of the config.
const pool = "worker"

// offered is the content that both servers serve.
type offered struct {
	size, zippedSize     int
	digest, zippedDigest string
	token, ca            string
	tokens               []string // tokens has one for each machine behind one address.
}

// job returns the job for one server and one way.
func (b bench) job(w way, s *server) job {
	j := job{
		Address: s.address, Path: s.path, CA: b.offer.ca, Kind: w.kind, Zipped: w.zipped, Workers: w.workers,
		For:    b.time,
		Digest: b.offer.digest, Size: b.offer.size,
	}
	if s.name == oursName {
		j.Token = b.offer.token
	}
	if w.zipped {
		j.Digest, j.Size = b.offer.zippedDigest, b.offer.zippedSize
		if s.name == staticName {
			j.Path += ".gz"
		}
	}
	return j
}

// prepare builds the server if none is named, and writes its config. It fetches both forms of the body from it for the
// other server.
func (b *bench) prepare(ctx context.Context) error {
	if b.program == "" {
		b.program = filepath.Join(b.dir, "machine-config-server")
		build := exec.CommandContext(ctx, "go", "build", "-o", b.program, "./cmd/machine-config-server")
		build.Dir = b.root
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building the server: %w\n%s", err, text)
		}
	}
	for _, dir := range []string{"configs", "files", "certificate", "cache"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o700); err != nil {
			return err
		}
	}
	if err := b.writeConfig(); err != nil {
		return err
	}
	if err := b.writeTokens(); err != nil {
		return err
	}
	if err := b.startOurs(ctx, "--rate=0"); err != nil {
		return err
	}
	defer b.ours.stop()
	ca, err := os.ReadFile(filepath.Join(b.dir, "certificate", "ca.crt"))
	if err != nil {
		return err
	}
	b.offer.ca = string(ca)
	if b.offer.size, b.offer.digest, err = b.keep(ctx, "identity", pool); err != nil {
		return err
	}
	b.offer.zippedSize, b.offer.zippedDigest, err = b.keep(ctx, "gzip", pool+".gz")
	return err
}

// writeConfig writes a rendered config of about the requested size.
func (b bench) writeConfig() error {
	const each = 14_200 // bytes of one document
	r, err := render.Merge(pool, corpus.Large.MachineConfigs(max(1, b.size/each)), render.Defaults{})
	if err != nil {
		return fmt.Errorf("rendering: %w", err)
	}
	return writeObject(filepath.Join(b.dir, "configs", r.Name+".yaml"), &mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec,
	})
}

// writeTokens writes a token of the pool for any number of machines, and one for each machine behind one address.
func (b *bench) writeTokens() error {
	var all bytes.Buffer
	for i := range 1 + b.nat {
		t, err := join.NewToken(rand.Reader)
		if err != nil {
			return err
		}
		if i == 0 {
			b.offer.token = t.String()
		} else {
			b.offer.tokens = append(b.offer.tokens, t.String())
		}
		text, err := yaml.Marshal(&v1alpha1.ProvisioningToken{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"},
			ObjectMeta: metav1.ObjectMeta{Name: t.ID},
			Spec: v1alpha1.ProvisioningTokenSpec{
				Pool: pool, Hash: t.Hash(),
				Expires: metav1.NewTime(time.Now().Add(24 * time.Hour)),
			},
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s", text)
	}
	return os.WriteFile(filepath.Join(b.dir, "tokens.yaml"), all.Bytes(), 0o600)
}

func writeObject(file string, object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// keep fetches a body from Bunsen's server and writes it to a file for the other one.
func (b bench) keep(ctx context.Context, encoding, as string) (size int, digest string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.ours.address+b.ours.path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header = http.Header{
		"Accept": {accept}, "Accept-Encoding": {encoding},
		"Authorization": {"Bearer " + b.offer.token},
	}
	client := &http.Client{Transport: &http.Transport{
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("fetching the config once: %w\n%s", err, b.ours.tail())
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return 0, "", fmt.Errorf("fetching the config once: %s, %v: %s\n%s", answer.Status, err,
			bytes.TrimSpace(body[:min(len(body), 300)]), b.ours.tail())
	}
	if encoding == "identity" && !json.Valid(body) {
		return 0, "", fmt.Errorf("fetching the config once: %d bytes are no JSON", len(body))
	}
	sum := sha256.Sum256(body)
	return len(body), hex.EncodeToString(sum[:]), os.WriteFile(filepath.Join(b.dir, "files", as), body, 0o600)
}

// start restarts both servers; the flags are for Bunsen's server.
func (b *bench) start(ctx context.Context, flags ...string) error {
	if err := b.startOurs(ctx, flags...); err != nil {
		return err
	}
	address, err := free()
	if err != nil {
		return err
	}
	b.static = &server{
		name: staticName, address: address, path: "/" + pool, readiness: "/" + pool,
		log: filepath.Join(b.dir, "static.log"),
	}
	return launch(ctx, b.processors, b.static, staticRole, address, filepath.Join(b.dir, "files"),
		filepath.Join(b.dir, "certificate"))
}

func (b *bench) startOurs(ctx context.Context, flags ...string) error {
	address, err := free()
	if err != nil {
		return err
	}
	b.ours = &server{
		name: oursName, address: address, path: "/config/" + pool, readiness: "/readyz",
		log: filepath.Join(b.dir, "server.log"),
	}
	args := append([]string{
		b.program,
		"--listen", address, "--from-dir", filepath.Join(b.dir, "configs"), "--tokens-file",
		filepath.Join(b.dir, "tokens.yaml"),
		"--cert-dir", filepath.Join(b.dir, "certificate"), "--cache-dir", filepath.Join(b.dir, "cache"), "--audit-log",
		filepath.Join(b.dir, "audit.log"),
	}, flags...)
	return launch(ctx, b.processors, b.ours, "", args...)
}

func (b *bench) stop() {
	b.ours.stop()
	b.static.stop()
}
