package repository

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"
)

func TestATokenStaysOnTheServerThatItIsFor(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("%s: %s %s reached another server", kind, r.Method, r.URL)
		}))
		t.Cleanup(elsewhere.Close)
		here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
		t.Cleanup(here.Close)
		var out bytes.Buffer
		err := Post{
			(&forgetest.Pull{Kind: kind}).Target(here.URL), "body",
			forge.Status{Context: "c", State: forge.Success},
		}.Publish(t.Context(), &out, &out, false)
		if err == nil || !strings.Contains(err.Error(), "points to another server") ||
			strings.Contains(err.Error(), forgetest.Token) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
