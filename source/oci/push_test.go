package oci_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/oci"
)

var pushed = source.Commit{
	URL: "https://git.example.org/cfg", Hash: strings.Repeat("5", 40), Author: "Ada <ada@example.org>",
	Subject: "chrony: two servers",
	Time:    time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
}

func artifact(t *testing.T, content string) oci.Artifact {
	t.Helper()
	a, err := oci.Pack(fstest.MapFS{
		"pools/worker/a.bu": {Data: []byte(content), Mode: 0o644},
		"run.sh":            {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
	}, pushed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// privateKey returns a key, and the Secret with its public key.
func privateKey(t *testing.T) (oci.PrivateKey, *oci.Keys) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := oci.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := oci.ParseKeys(map[string][]byte{"cosign.pub": pem.EncodeToMemory(&pem.Block{
		Type:  "PUBLIC KEY",
		Bytes: public,
	})})
	if err != nil {
		t.Fatal(err)
	}
	return own, &keys
}

// send pushes an artifact to the tag stable with a password.
func (s *server) send(t *testing.T, a oci.Artifact, key *oci.PrivateKey, password string) error {
	t.Helper()
	to, err := oci.ParseTarget("oci://" + s.host() + "/team/cfg:stable")
	if err != nil {
		t.Fatal(err)
	}
	transport, err := access.NewConnect(source.Address{}, s.secret(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	login := func(_ context.Context, host string) (auth.Credential, error) {
		if host != s.host() {
			t.Errorf("the credentials of %s are requested", host)
		}
		return auth.Credential{Username: user, Password: password}, nil
	}
	return oci.NewPublisher(to, login, transport).Push(t.Context(), a, key)
}

func TestWhatIsPushedIsFollowed(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		s := newServer(t, tokens)
		first := artifact(t, "one")
		own, keys := privateKey(t)
		other, _ := privateKey(t)
		for range 2 { // a second push changes nothing
			if err := s.send(t, first, &own, password); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.send(t, first, &other, password); err != nil { // another signature leaves the first one
			t.Fatal(err)
		}
		c := s.config(v1alpha1.GitRef{Tag: "stable"})
		if tokens {
			c.Secret["hosts"] = []byte(s.host() + " " + strings.TrimPrefix(s.tokens.URL, "https://"))
		}
		c.Keys = keys
		got, err := follow(t, c, "")
		if err != nil {
			t.Fatal(err)
		}
		commit := got.Commit
		if "sha256:"+commit.Hash != first.Digest() || commit.Author != pushed.Author ||
			!commit.Time.Equal(pushed.Time) ||
			commit.Subject != "chrony: two servers (git sha1:"+pushed.Hash+")" || commit.Signer != "cosign.pub ("+
			own.Fingerprint()+")" {
			t.Errorf("the commit is %+v", commit)
		}
		second := artifact(t, "two")
		if second.Digest() == first.Digest() {
			t.Error("other files have the same digest")
		}
		if err := s.send(t, second, nil, password); err != nil {
			t.Fatal(err)
		}
		if _, err := follow(t, c, ""); fault.Of(err, "").Reason != v1alpha1.ReasonSignature {
			t.Errorf("an artifact without a signature: %v", err)
		}
	}
}

// TestTheTagMovesLast: at the time at which the tag moves, the signature is there.
func TestTheTagMovesLast(t *testing.T) {
	s := newServer(t, false)
	var order []string
	s.before = func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") &&
			r.Header.Get("Authorization") != "" {
			order = append(order, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		}
	}
	a := artifact(t, "one")
	key, _ := privateKey(t)
	if err := s.send(t, a, &key, password); err != nil {
		t.Fatal(err)
	}
	want := []string{a.Digest(), strings.Replace(a.Digest(), ":", "-", 1) + ".sig", "stable"}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

func TestASignatureIsAnImageThatCosignReads(t *testing.T) {
	s := newServer(t, false)
	a := artifact(t, "one")
	key, _ := privateKey(t)
	if err := s.send(t, a, &key, password); err != nil {
		t.Fatal(err)
	}
	get := func(path string) (out map[string]any) {
		r := httptest.NewRequest(http.MethodGet, "/v2/team/cfg/"+path, http.NoBody)
		w := httptest.NewRecorder()
		s.plain.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return out
	}
	m := get("manifests/" + strings.Replace(a.Digest(), ":", "-", 1) + ".sig")
	config := get("blobs/" + m["config"].(map[string]any)["digest"].(string))
	layer := m["layers"].([]any)[0].(map[string]any)
	if ids := config["rootfs"].(map[string]any)["diff_ids"]; fmt.Sprint(ids) != fmt.Sprint([]any{layer["digest"]}) {
		t.Errorf("the config has the layers %v, the manifest %v", ids, layer["digest"])
	}
}

func TestAPushThatFailsSaysWhatToDo(t *testing.T) {
	a := artifact(t, "one")
	key, _ := privateKey(t)
	answer := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"errors":[{"message":"INTERNAL"}]}`, code)
		}
	}
	for name, test := range map[string]struct {
		before   http.HandlerFunc
		password string
		kind     fault.Kind
		words    string
	}{
		"a wrong password": {nil, "wrong", fault.Stalled, "log in with docker login, or set BUNSEN_REGISTRY_USERNAME and BUNSEN_REGISTRY_PASSWORD"},
		"no right to push": {answer(http.StatusForbidden), password, fault.Stalled, "they need the right to push"},
		"too many":         {answer(http.StatusTooManyRequests), password, fault.Retry, "try again later"},
		"an outage":        {answer(http.StatusBadGateway), password, fault.Retry, "does not answer the request (502 Bad Gateway)"},
		"no repository":    {answer(http.StatusNotFound), password, fault.Retry, "create it there, or correct its name"},
		"an upload to elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.Header.Get("Authorization") != "" {
				w.Header().Set("Location", "https://thief.example.org/upload")
				w.WriteHeader(http.StatusAccepted)
			}
		}, password, fault.Retry, "the answer is not one of an OCI registry"},
		"a redirect without TLS": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.Header.Get("Authorization") != "" {
				http.Redirect(w, r, "http://thief.example.org/upload", http.StatusTemporaryRedirect)
			}
		}, password, fault.Retry, "leads to an address without https"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.Header.Get("Authorization") != "" {
				http.Redirect(w, r, "https://thief.example.org/upload", http.StatusTemporaryRedirect)
			}
		}, password, fault.Stalled, "redirects an upload to thief.example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, false)
			s.before = test.before
			err := s.send(t, a, &key, test.password)
			if err == nil || fault.Of(err, "").Kind != test.kind || !strings.Contains(err.Error(), test.words) ||
				!strings.HasPrefix(err.Error(), "pushing to oci://"+s.host()+"/team/cfg:stable: ") {
				t.Fatalf("got %v, want %q", err, test.words)
			}
			if strings.Contains(err.Error(), "INTERNAL") || strings.Contains(err.Error(), password) {
				t.Errorf("the error has a part of the answer or the password: %v", err)
			}
		})
	}
}

func TestTheAddressOfAPush(t *testing.T) {
	for _, raw := range []string{"oci://host/name:tag", "oci://host:5000/a/b-c:v1.4.0", "oci://host/name:a_b-c.d"} {
		to, err := oci.ParseTarget(raw)
		if err != nil || to.URL+":"+to.Tag != raw {
			t.Errorf("%s: %+v, %v", raw, to, err)
		}
	}
	for raw, words := range map[string]string{
		"host/name:tag":               "write oci://host/name:tag",
		"https://host/name:tag":       "write oci://host/name:tag",
		"oci://host/name":             "names no tag: write oci://host/name:latest",
		"oci://host:5000/name":        "names no tag: write oci://host:5000/name:latest",
		"oci://host/name:":            "names no tag",
		"oci://host/name:a/b":         "",
		"oci://host/name:-x":          "names no tag",
		"oci://host/Name:tag":         "lower case",
		"oci://host/name@sha256:0":    "write oci://host/name:tag",
		"oci://me:S3CR3T@host/name:t": "holds credentials",
		"oci://host:5000":             "names no repository",
		"oci:///name:tag":             "names no repository",
	} {
		_, err := oci.ParseTarget(raw)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "S3CR3T") ||
			fault.Of(err, "").Reason != v1alpha1.ReasonInvalidSpec {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
