package forge_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"
)

func TestAPullRequestIsOpened(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		target := r.Target(serve(t, r))
		var o forge.Opener
		var err error
		switch r.Kind {
		case forge.GitHub:
			o, err = forge.NewGitHub(target, http.DefaultClient)
		case forge.GitLab:
			o, err = forge.NewGitLab(target, http.DefaultClient)
		default:
			o, err = forge.NewGitea(target, http.DefaultClient)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := forge.Proposal{
			Branch: "bunsen/rollback-worker-4f1c2ab1", Base: "main", Title: `Revert "x"`,
			Body: "This reverts commit y.",
		}
		if page, err := o.Open(t.Context(), p); err != nil || page != "https://forge.example/pulls/7" ||
			!slices.Equal(r.Opened, []forge.Proposal{p}) {
			t.Errorf("opened %q, %+v, %v", page, r.Opened, err)
		}
		if _, err := o.Open(t.Context(), p); err == nil {
			t.Error("a second pull request of the branch has no error")
		}
		other := p
		other.Branch = "bunsen/other"
		if page, err := o.Opened(t.Context(), other); page != "" || err != nil {
			t.Errorf("the pull request of another branch: %q, %v", page, err)
		}
		r.Lose = func(n int) bool { return n == len(r.Log) }
		if page, err := forge.OpenPull(t.Context(), o, other); err != nil || page != "https://forge.example/pulls/7" {
			t.Errorf("after a lost answer: %q, %v", page, err)
		}
		r.Lose = nil
		r.ReadOnly = true
		if _, err := o.Open(t.Context(), p); !errors.Is(err, forge.ErrForbidden) {
			t.Errorf("without the permission: %v", err)
		}
	})
}

func TestTheServiceOfARepository(t *testing.T) {
	for _, tt := range []struct {
		kind               forge.Kind
		scheme, host, path string
		want               forge.Target
		page               string
	}{
		{"", "https", "github.com", "acme/os", forge.Target{Kind: forge.GitHub, API: "https://api.github.com", Project: "acme/os"}, "https://github.com/acme/os/compare/release%2F1...b/x"},
		{"", "ssh", "github.com", "acme/os", forge.Target{Kind: forge.GitHub, API: "https://api.github.com", Project: "acme/os"}, "https://github.com/acme/os/compare/release%2F1...b/x"},
		{forge.GitHub, "https", "git.acme.com", "acme/os", forge.Target{Kind: forge.GitHub, API: "https://git.acme.com/api/v3", Project: "acme/os"}, "https://git.acme.com/acme/os/compare/release%2F1...b/x"},
		{"", "https", "gitlab.acme.com:8443", "a/b/os", forge.Target{Kind: forge.GitLab, API: "https://gitlab.acme.com:8443/api/v4", Project: "a/b/os"}, "https://gitlab.acme.com:8443/a/b/os/-/merge_requests/new?merge_request%5Bsource_branch%5D=b%2Fx&merge_request%5Btarget_branch%5D=release%2F1"},
		{forge.Gitea, "http", "127.0.0.1:3000", "git/acme/os", forge.Target{Kind: forge.Gitea, API: "http://127.0.0.1:3000/git/api/v1", Project: "acme/os"}, "http://127.0.0.1:3000/git/acme/os/compare/release%2F1...b/x"},
		{"", "https", "codeberg.org", "acme/os", forge.Target{Kind: forge.Gitea, API: "https://codeberg.org/api/v1", Project: "acme/os"}, "https://codeberg.org/acme/os/compare/release%2F1...b/x"},
		{"", "https", "github.com.evil.net", "acme/os", forge.Target{Kind: forge.GitHub, API: "https://github.com.evil.net/api/v3", Project: "acme/os"}, "https://github.com.evil.net/acme/os/compare/release%2F1...b/x"},
		{"", "https", "git.example.com", "acme/os", forge.Target{Project: "acme/os"}, ""},
	} {
		s := forge.SiteOf(tt.kind, tt.scheme, tt.host, tt.path)
		if page := s.NewPull("release/1", "b/x"); s.Target != tt.want || page != tt.page {
			t.Errorf("%s: %+v, page %s", tt.host, s.Target, page)
		}
	}
}

// TestATokenIsForItsService: the token of one service is never sent to another one.
func TestATokenIsForItsService(t *testing.T) {
	all := map[string]string{
		"GITHUB_TOKEN": "hub", "GH_ENTERPRISE_TOKEN": "enterprise", "GITLAB_TOKEN": "lab",
		"GITEA_TOKEN": "tea",
	}
	for want, target := range map[string]forge.Target{
		"hub": {Kind: forge.GitHub, API: "https://api.github.com"}, "enterprise": {
			Kind: forge.GitHub,
			API:  "https://api.github.com.evil.net/api/v3",
		},
		"lab": {Kind: forge.GitLab}, "tea": {Kind: forge.Gitea}, "": {API: "https://api.github.com"},
	} {
		if got := forge.UserToken(target, func(name string) string { return all[name] }); got != want {
			t.Errorf("%+v gets %q, want %q", target, got, want)
		}
	}
}
