package rollback_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/rollback"
	"github.com/bunsen-os/bunsen/internal/forge"
)

// TestAClusterGetsNoToken: whoever writes a GitSource must not decide which host gets the token of the user who runs
// bunsen. The address of a temporary clone comes from the GitSource, that of another clone from the user.
func TestAClusterGetsNoToken(t *testing.T) {
	for name, value := range map[string]string{
		"BUNSEN_TOKEN": "", "GITHUB_TOKEN": "hub", "GH_TOKEN": "",
		"GH_ENTERPRISE_TOKEN": "enterprise", "GITEA_TOKEN": "tea", "GITLAB_TOKEN": "lab",
	} {
		t.Setenv(name, value)
	}
	named := rollback.Options{Site: forge.Target{Kind: forge.Gitea, API: "http://10.0.0.1:3000/api/v1"}}
	for _, tt := range []struct {
		options     rollback.Options
		address     string
		isTemporary bool
		hook        v1alpha1.WebhookType
		api, token  string
	}{
		{address: "https://github.com/acme/os.git", isTemporary: true, api: "https://api.github.com", token: "hub"},
		{address: "git@github.com:acme/os.git", api: "https://api.github.com", token: "hub"},
		{address: "https://evil.example/acme/os.git", isTemporary: true, hook: v1alpha1.WebhookGitHub, api: "https://evil.example/api/v3"},
		{address: "https://gitea.evil.example/acme/os.git", isTemporary: true, api: "https://gitea.evil.example/api/v1"},
		{address: "https://api.github.com.evil.example/acme/os.git", isTemporary: true, hook: v1alpha1.WebhookGitHub, api: "https://api.github.com.evil.example/api/v3"},
		{address: "https://git.acme.com/acme/os.git", hook: v1alpha1.WebhookGitHub, api: "https://git.acme.com/api/v3", token: "enterprise"},
		{address: "https://git.acme.com/acme/os.git", hook: v1alpha1.WebhookGitea, api: "https://git.acme.com/api/v1", token: "tea"},
		{address: "ssh://git@git.acme.com:2222/acme/os.git", hook: v1alpha1.WebhookGitLab, api: "https://git.acme.com/api/v4", token: "lab"},
		{address: "http://git.acme.com/acme/os.git", hook: v1alpha1.WebhookGitea, api: "http://git.acme.com/api/v1"},
		{options: named, address: "https://evil.example/acme/os.git", isTemporary: true, hook: v1alpha1.WebhookGitHub, api: "http://10.0.0.1:3000/api/v1", token: "tea"},
		{address: "https://git.acme.com/acme/os.git"},
		{address: "/srv/config", hook: v1alpha1.WebhookGitHub},
	} {
		api, token, notes := rollback.TokenFor(tt.options, "", tt.address, tt.isTemporary, tt.hook)
		if api != tt.api || token != tt.token {
			t.Errorf("%+v: token %q to %q", tt, token, api)
		}
		if (token == "" && api != "") != (len(notes) == 1) {
			t.Errorf("%+v: the notes are %q", tt, notes)
		}
		api, file, notes := rollback.TokenFor(tt.options, "file", tt.address, tt.isTemporary, tt.hook)
		if goes := token != ""; api != tt.api || (file == "file") != goes || (len(notes) == 1) == goes {
			t.Errorf("%+v: the token of --token-from, %q, goes to %q, with the notes %q", tt, file, api, notes)
		}
	}
}
