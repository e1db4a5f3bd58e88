package reconcile_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ocistore "github.com/google/go-containerregistry/pkg/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/source/oci"
)

// largeFiles is a real registry, and counts the files that it gets.
type largeFiles struct {
	*oci.Contents
	handler http.Handler
}

// newLargeFiles starts a registry without a password.
func newLargeFiles(t *testing.T) *largeFiles {
	t.Helper()
	out := &largeFiles{}
	out.forget()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var err error
	out.Contents, err = oci.NewContents(strings.TrimPrefix(server.URL, "https://")+"/bunsen/content",
		func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil },
		server.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forget is what a user does who deletes the whole repository.
func (l *largeFiles) forget() { l.handler = ocistore.New(ocistore.Logger(log.New(io.Discard, "", 0))) }
