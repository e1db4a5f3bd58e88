package forge

import "testing"

func TestTheServiceOfAHost(t *testing.T) {
	for host, want := range map[string]Kind{
		"github.com": GitHub, "GitHub.example.com": GitHub, "gitlab.com": GitLab, "gitlab.corp": GitLab,
		"codeberg.org": Gitea, "forgejo.example.com": Gitea, "gitea.example.com": Gitea, "git.example.com": "",
	} {
		if got, known := KindOf(host); got != want || known != (want != "") {
			t.Errorf("%s: %q, %v", host, got, known)
		}
	}
}
