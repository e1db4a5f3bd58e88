package pki_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/standalone/pki"
)

func identity(t *testing.T, dir string) pki.Kubeconfig {
	t.Helper()
	for _, name := range []string{"ca", "cert", "key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+" content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pki.Kubeconfig{
		Server: "https://127.0.0.1:16443", User: "system:node:node-1",
		CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
	}
}

func TestAKubeconfigStandsAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	if err := pki.WriteKubeconfig(path, identity(t, dir)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, want := range []string{
		"server: https://127.0.0.1:16443\n",
		"certificate-authority-data: " + b64("ca content"),
		"client-certificate-data: " + b64("cert content"),
		"client-key-data: " + b64("key content"),
		`user: "system:node:node-1"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), dir) {
		t.Error("it refers to other files")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestAnUnchangedKubeconfigIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	id := identity(t, dir)
	stat := func() os.FileInfo {
		if err := pki.WriteKubeconfig(path, id); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := stat()
	if !os.SameFile(first, stat()) {
		t.Error("the same content was written again")
	}
	id.Server = "https://127.0.0.1:16444"
	if os.SameFile(first, stat()) {
		t.Error("another server left the file as it was")
	}
}
