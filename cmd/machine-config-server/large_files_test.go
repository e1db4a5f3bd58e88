package main

import (
	"bytes"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// noise returns bytes that do not compress.
func noise(seed byte, size int) []byte {
	out := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(out) // It never fails.
	return out
}

func sha512Of(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

// commitFile commits a config repository whose only large file has these bytes.
func commitFile(t *testing.T, dir string, data []byte) {
	t.Helper()
	pool := filepath.Join(dir, "pools", "worker")
	document := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /opt/agent\n" +
		"      contents: {local: files/agent}\n"
	err := errors.Join(os.MkdirAll(filepath.Join(pool, "files"), 0o700),
		os.WriteFile(filepath.Join(pool, "10-agent.bu"), []byte(document), 0o600),
		os.WriteFile(filepath.Join(pool, "files", "agent"), data, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "."},
		{"add", "."},
		{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "Agent"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// stored is a large file in the config of a new machine.
type stored struct {
	source, grant, hash string
}

// storedFile waits until the server serves a config with a large file that has these bytes.
func (r *running) storedFile(t *testing.T, data []byte) stored {
	t.Helper()
	for t.Context().Err() == nil {
		got := r.ask(t, "/config/worker", "")
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Storage struct {
				Files []struct {
					Path     string
					Contents struct {
						Source       string
						HTTPHeaders  []struct{ Name, Value string }
						Verification struct{ Hash string }
					}
				}
			}
		}
		if got.StatusCode != http.StatusOK || json.Unmarshal(body, &config) != nil {
			continue // it has not read the repository yet
		}
		for _, f := range config.Storage.Files {
			if c := f.Contents; c.Verification.Hash == sha512Of(data) && len(c.HTTPHeaders) == 1 {
				return stored{c.Source, c.HTTPHeaders[0].Value, c.Verification.Hash}
			}
		}
	}
	t.Fatal("the config never has the file")
	return stored{}
}

// download requests a large file with a grant.
func (r *running) download(t *testing.T, f stored, part string) (int, []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(r.certs, "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.source, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", f.grant)
	if part != "" {
		request.Header.Set("Range", part)
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true,
	}}
	got, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, body
}

// serves fails unless the server sends the file and a part of it.
func (r *running) serves(t *testing.T, f stored, data []byte) {
	t.Helper()
	if status, body := r.download(t, f, ""); status != http.StatusOK || !bytes.Equal(body, data) {
		t.Errorf("got %d with %d bytes", status, len(body))
	}
	if status, body := r.download(t, f, "bytes=100-299"); status != http.StatusPartialContent ||
		!bytes.Equal(body, data[100:300]) {
		t.Errorf("a part: %d with %d bytes", status, len(body))
	}
	other := f
	other.grant += "x"
	if status, _ := r.download(t, other, ""); status != http.StatusUnauthorized &&
		status != http.StatusServiceUnavailable {
		t.Errorf("with a wrong grant: %d", status)
	}
}

// TestAServerOfARepositoryServesItsLargeFiles to new machines, after a crash that truncated a copy, and after the next
// commit.
func TestAServerOfARepositoryServesItsLargeFiles(t *testing.T) {
	repository, cache := t.TempDir(), t.TempDir()
	first, second := noise(1, 2<<20), noise(2, 2<<20+7)
	commitFile(t, repository, first)
	args := []string{
		"--from-git", repository, "--cache-dir", cache, "--open", "--hostnames", "127.0.0.1", "--interval",
		"5s", "--rate", "0", "--failure-rate", "0",
	}
	r := start(t, args...)
	was := r.storedFile(t, first)
	if !strings.HasPrefix(was.source, "https://"+r.address+"/content/") {
		t.Errorf("the source is %s", was.source)
	}
	r.serves(t, was, first)
	name := filepath.Join(cache, "content", was.hash)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}
	r.ends(t)
	if err := errors.Join(os.Truncate(name, 1000), os.WriteFile(filepath.Join(cache, "content", ".new-1"),
		[]byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r = start(t, args...)
	r.serves(t, r.storedFile(t, first), first)
	if left, err := os.ReadDir(filepath.Join(cache, "content")); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
	was = r.storedFile(t, first)
	commitFile(t, repository, second)
	r.serves(t, r.storedFile(t, second), second)
	r.serves(t, was, first) // a machine that boots during the commit
	for _, hash := range []string{sha512Of([]byte("other")), "../../git", "sha512-00"} {
		if got := r.ask(t, "/content/"+hash, ""); got.StatusCode == http.StatusOK {
			t.Errorf("%s: %d", hash, got.StatusCode)
		}
	}
	r.ends(t)
	if err := os.RemoveAll(filepath.Join(repository, ".git")); err != nil {
		t.Fatal(err)
	}
	r = start(t, args...) // the last good commit stays in force
	r.serves(t, r.storedFile(t, second), second)
	r.ends(t)
}

// TestAServerOfADirectoryServesTheLargeFilesInIt, once they are there and complete.
func TestAServerOfADirectoryServesTheLargeFilesInIt(t *testing.T) {
	said := logged(t)
	data := noise(3, 1<<20)
	hash := sha512Of(data)
	dir := filepath.Dir(write(t, "worker.yaml", fmt.Sprintf(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: worker}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
        - path: /opt/agent
          contents: {source: "https://content.bunsen.invalid/%s", verification: {hash: %s}}
`, hash, hash)))
	r := start(t, "--from-dir", dir, "--open", "--hostnames", "127.0.0.1", "--rate", "0", "--failure-rate", "0")
	for !strings.Contains(said(), "bunsen build --content") {
		if t.Context().Err() != nil {
			t.Fatal("it does not say that the file is missing")
		}
	}
	if got := r.ask(t, "/config/worker", ""); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without the file: %d", got.StatusCode)
	}
	name := filepath.Join(dir, "content", hash)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "content"), 0o700),
		os.WriteFile(name, data[:100], 0o600)); err != nil {
		t.Fatal(err)
	}
	f := r.storedFile(t, data)
	if status, body := r.download(t, f, ""); status != http.StatusServiceUnavailable ||
		bytes.Contains(body, data[:50]) {
		t.Errorf("a file that is being copied: %d", status)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if status, _ := r.download(t, f, ""); status == http.StatusOK {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the complete file: %d", status)
		}
	}
	r.serves(t, f, data)
	r.ends(t)
}
