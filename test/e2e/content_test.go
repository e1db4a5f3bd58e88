package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// contentServer serves files to the machines of a story.
type contentServer struct {
	// fault is what is wrong with it: one of faults.
	fault atomic.Value
	// artifacts is a registry at the same address. attempts counts how often a manifest was requested while the fault
	// is flaky.
	artifacts http.Handler
	attempts  atomic.Int64
}

// faults of the server: it hangs up, has no file, sends other bytes, or hangs up in the middle. With `flaky`, the
// registry hangs up, then sends half of a file, then other bytes, and then what it has. With `back`, nothing is wrong.
var faults = []string{"away", "missing", "wrong", "truncated", "flaky", "back"}

// serveContent serves the files of a directory to machines at $CONTENT: content DIR [tls]. With tls, the server has a
// CA of its own, in content.pem, and is a registry too, at $ARTIFACTS; our programs outside of the machines' network
// reach it through the proxy $HTTPS_PROXY. Or it gives the server a fault: content
// away|missing|wrong|truncated|flaky|back.
func (s *story) serveContent(ts *testscript.TestScript, args []string) error {
	if len(args) == 1 && slices.Contains(faults, args[0]) {
		s.content.fault.Store(args[0])
		return nil
	}
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "tls" {
		return usage("content DIR [tls], or content " + strings.Join(faults, "|"))
	}
	t, ok := ts.Value(testKey{}).(testing.TB)
	if !ok {
		return fmt.Errorf("content needs a test that can end machines, not %T", ts.Value(testKey{}))
	}
	if err := s.connect(t); err != nil {
		return err
	}
	s.content.fault.Store("back")
	s.content.artifacts = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := &http.Server{
		ReadHeaderTimeout: patience,
		Handler:           s.content.withFaults(s.content.withRegistry(http.FileServer(http.Dir(ts.MkAbs(args[0]))))),
	}
	l := s.network.Listen(0)
	if len(args) == 1 {
		ts.Setenv("CONTENT", "http://"+l.Addr().String())
		go server.Serve(l) //nolint:errcheck // it ends with its listener
		return nil
	}
	certificate, authority, err := certificateFor(net.ParseIP(s.network.Address()))
	if err != nil {
		return fmt.Errorf("creating the certificate of the content: %w", err)
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	ts.Setenv("CONTENT", "https://"+l.Addr().String())
	ts.Setenv("ARTIFACTS", l.Addr().String())
	if err := s.proxy(ts); err != nil {
		return err
	}
	go server.ServeTLS(l, "", "") //nolint:errcheck // it ends with its listener
	return os.WriteFile(filepath.Join(s.work, "content.pem"), authority, 0o600)
}

// withFaults puts the fault of the server before its files.
func (c *contentServer) withFaults(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch c.fault.Load() {
		case "away":
			panic(http.ErrAbortHandler) // which hangs up
		case "missing":
			http.NotFound(w, r)
		case "wrong":
			w.Header().Set("Content-Length", "5")
			fmt.Fprint(w, "other") //nolint:errcheck // the machine went away
		case "truncated":
			files.ServeHTTP(&half{ResponseWriter: w}, r)
		default:
			files.ServeHTTP(w, r)
		}
	})
}

// withRegistry serves the registry beside the files, to everybody who got a token.
func (c *contentServer) withRegistry(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			fmt.Fprint(w, `{"token": "everybody"}`) //nolint:errcheck // the machine went away
		case !strings.HasPrefix(r.URL.Path, "/v2/"):
			files.ServeHTTP(w, r)
		case r.Header.Get("Authorization") != "Bearer everybody":
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="content"`)
			w.WriteHeader(http.StatusUnauthorized)
		case c.fault.Load() == "flaky":
			c.flaky(w, r)
		default:
			c.artifacts.ServeHTTP(w, r)
		}
	})
}

// flaky serves the registry: at the first attempt it hangs up, at the second it sends half of the file, at the third
// other bytes.
func (c *contentServer) flaky(w http.ResponseWriter, r *http.Request) {
	isFile := strings.Contains(r.URL.Path, "/blobs/")
	if !isFile {
		c.attempts.Add(1)
	}
	switch c.attempts.Load() {
	case 1:
		panic(http.ErrAbortHandler)
	case 2:
		if isFile {
			w = &half{ResponseWriter: w}
		}
	case 3:
		if isFile {
			w = other{w}
		}
	}
	c.artifacts.ServeHTTP(w, r)
}

// other is an answer with other bytes, as many as there should be.
type other struct{ http.ResponseWriter }

// Write sends other bytes.
func (o other) Write(p []byte) (int, error) {
	p = slices.Clone(p)
	for i := range p {
		p[i] ^= 1
	}
	return o.ResponseWriter.Write(p)
}

// proxy starts a proxy into the network of the machines for programs that are started later, at $HTTPS_PROXY.
func (s *story) proxy(ts *testscript.TestScript) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to, err := s.network.Dial(r.Context(), r.Host)
			if err != nil || r.Method != http.MethodConnect {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer to.Close()                                          //nolint:errcheck // nothing can be done
			from, read, err := http.NewResponseController(w).Hijack() // which may have bytes of the client already
			if err != nil {
				return
			}
			defer from.Close() //nolint:errcheck // nothing can be done
			if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
				return
			}
			go func() {
				io.Copy(to, read) //nolint:errcheck,gosec // an end is an end
				to.Close()        //nolint:errcheck,gosec // nothing can be done
			}()
			io.Copy(from, to) //nolint:errcheck,gosec // an end is an end
		}),
	}
	ts.Defer(func() { server.Close() })
	ts.Setenv("HTTPS_PROXY", "http://"+l.Addr().String())
	go server.Serve(l) //nolint:errcheck // it ends with its listener
	return nil
}

// artifact FILE NAME:TAG pushes a file into the registry of the content, as `oras push` does.
func (s *story) artifact(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 || s.content.artifacts == nil || !strings.Contains(args[1], ":") {
		return usage("artifact FILE NAME:TAG, after content")
	}
	name, tag, _ := strings.Cut(args[1], ":")
	file := ts.ReadFile(args[0])
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(file)))
	manifest := fmt.Sprintf(
		`{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [{"mediaType": "application/octet-stream", "digest": %q, "size": %d}]}`, digest, len(file))
	for _, put := range []struct{ method, path, body string }{
		{http.MethodPost, "/v2/" + name + "/blobs/uploads/?digest=" + digest, file},
		{http.MethodPut, "/v2/" + name + "/manifests/" + tag, manifest},
	} {
		answer := httptest.NewRecorder()
		s.content.artifacts.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), put.method, put.path,
			strings.NewReader(put.body)))
		if answer.Code >= http.StatusBadRequest {
			return fmt.Errorf("%s %s: %d %s", put.method, put.path, answer.Code, answer.Body)
		}
	}
	return nil
}

// half is an answer that ends in the middle.
type half struct {
	http.ResponseWriter
	left int
}

// WriteHeader reads how long the answer would be.
func (h *half) WriteHeader(status int) {
	if size, err := strconv.Atoi(h.Header().Get("Content-Length")); err == nil {
		h.left = size / 2
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write hangs up after the first half.
func (h *half) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.left -= n
	if _, err := h.ResponseWriter.Write(p[:n]); err != nil {
		return 0, err
	}
	if h.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// certificateFor returns a server's certificate for an address, and the PEM of the CA that signed it.
func certificateFor(address net.IP) (tls.Certificate, []byte, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "content"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour * 24),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: address.String()}, NotBefore: ca.NotBefore,
		NotAfter: ca.NotAfter, IPAddresses: []net.IP{address},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), nil
}

// near PROGRAM... runs a program in the network of the machines, in the story's directory. What it prints can be looked
// at.
func (s *story) near(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 || s.network == nil {
		return usage("near PROGRAM..., after born or content")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.network.Command(ctx, args...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), append(os.Environ(), "PATH="+ts.Getenv("PATH"), "HOME="+s.work)
	out, err := cmd.CombinedOutput()
	if _, printed := ts.Stdout().Write(out); printed != nil {
		return printed
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
