package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// registry starts an OCI registry behind TLS and a password, at $REGISTRY, which bunsen push can log in to. It writes
// the registry's authority to registry.pem and a key for signatures to cosign.key. $REGISTRYCA and $COSIGNPUB have the
// authority and the public key, indented for a Secret.
func (*story) registry(ts *testscript.TestScript, _ []string) error {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != gitUser || password != gitPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	ts.Defer(s.Close)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	public, publicErr := x509.MarshalPKIXPublicKey(key.Public())
	if err := errors.Join(err, publicErr); err != nil {
		return err
	}
	text := func(kind string, raw []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
	}
	authority := text("CERTIFICATE", s.Certificate().Raw)
	for name, value := range map[string]string{
		"REGISTRY": strings.TrimPrefix(s.URL, "https://"), "BUNSEN_REGISTRY_USERNAME": gitUser,
		"BUNSEN_REGISTRY_PASSWORD": gitPassword,
		"REGISTRYCA":               indented([]byte(authority)),
		"COSIGNPUB":                indented([]byte(text("PUBLIC KEY", public))),
	} {
		ts.Setenv(name, value)
	}
	work := ts.Getenv("WORK")
	return errors.Join(os.WriteFile(filepath.Join(work, "registry.pem"), []byte(authority), 0o600),
		os.WriteFile(filepath.Join(work, "cosign.key"), []byte(text("PRIVATE KEY", private)), 0o600))
}
