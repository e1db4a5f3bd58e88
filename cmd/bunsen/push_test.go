package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/oci"
)

// startRegistry starts a registry behind TLS and the password of the user ada, sets REGISTRY to its host, and writes
// its authority to ca.pem and a pair of keys to cosign.key and cosign.pub.
func startRegistry(ts *testscript.TestScript, _ bool, _ []string) {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "S3CR3T" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	ts.Defer(s.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(s.URL, "https://"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	ts.Check(err)
	for name, block := range map[string]*pem.Block{
		"ca.pem":     {Type: "CERTIFICATE", Bytes: s.Certificate().Raw},
		"cosign.key": {Type: "PRIVATE KEY", Bytes: private},
		"cosign.pub": {Type: "PUBLIC KEY", Bytes: public},
	} {
		ts.Check(os.WriteFile(inWork(ts, name), pem.EncodeToMemory(block), 0o600))
	}
}

// login writes the credentials of the registry into docker's configuration, as docker login does.
func login(ts *testscript.TestScript, _ bool, _ []string) {
	own := base64.StdEncoding.EncodeToString([]byte("ada:S3CR3T"))
	dir := ts.Getenv("DOCKER_CONFIG")
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`,
		ts.Getenv("REGISTRY"), own), 0o600))
}

// followed reads the tag of a repository in the registry as the controller does, with the signature of cosign.pub. It
// fails unless the files are those of a folder at HEAD of a repository in git. It writes the revision, author and
// subject to the file followed.
func followed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: followed NAME TAG REPOSITORY [FOLDER]")
	}
	name, tag, work, folder := args[0], args[1], ts.MkAbs(args[2]), strings.Join(args[3:], "")
	public, err := os.ReadFile(inWork(ts, "cosign.pub"))
	ts.Check(err)
	keys, err := oci.ParseKeys(map[string][]byte{"cosign.pub": public})
	ts.Check(err)
	ca, err := os.ReadFile(inWork(ts, "ca.pem"))
	ts.Check(err)
	secret := map[string][]byte{
		"ca.crt": ca, "username": []byte("ada"), "password": []byte("S3CR3T"),
		"hosts": []byte(ts.Getenv("REGISTRY")),
	}
	transport, err := access.NewConnect(source.Address{}, secret, nil)
	ts.Check(err)
	defer transport.CloseIdleConnections()
	ref := v1alpha1.GitRef{Tag: tag}
	remote, err := oci.New(oci.Config{
		URL: "oci://" + ts.Getenv("REGISTRY") + "/" + name, Ref: ref, Secret: secret,
		HostsRequired: true, Transport: transport, Keys: &keys,
	})
	ts.Check(err)
	tree, err := pickTree(ts, remote, ref, "")
	ts.Check(err)
	local, err := git.New(git.Config{URL: work})
	ts.Check(err)
	want, err := pickTree(ts, local, v1alpha1.GitRef{}, folder)
	ts.Check(err)
	if tree.Digest != want.Digest || len(tree.Refused) > 0 {
		ts.Fatalf("the artifact has the files %s, refused %v; git has %s", tree.Digest, tree.Refused, want.Digest)
	}
	c := tree.Commit
	text := fmt.Sprintf("%s\n%s\n%s\n%s\n", c.Revision(), c.Author, c.Subject, c.Time)
	ts.Check(os.WriteFile(inWork(ts, "followed"), []byte(text), 0o600))
}

// reader is a repository in git or in a registry.
type reader interface {
	List(ctx context.Context, prefixes ...string) ([]source.Ref, error)
	Tree(ctx context.Context, p source.Picked, path string, into source.Destination) (source.Tree, error)
}

func pickTree(ts *testscript.TestScript, from reader, ref v1alpha1.GitRef, folder string) (source.Tree, error) {
	refs, err := from.List(context.Background())
	ts.Check(err)
	picked, err := source.Pick(refs, ref)
	ts.Check(err)
	into, err := os.MkdirTemp(ts.Getenv("WORK"), "tree-")
	ts.Check(err)
	return from.Tree(context.Background(), picked, folder, source.Destination{Dir: into})
}

// inWork returns a path below the script's first directory.
func inWork(ts *testscript.TestScript, name string) string {
	return filepath.Join(ts.Getenv("WORK"), name)
}
