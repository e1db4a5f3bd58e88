package gitsource_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
)

const (
	secret = "a secret of this webhook"
	c1     = "0123456789abcdef0123456789abcdef01234567"
	c2     = "89abcdef0123456789abcdef0123456789abcdef"
	none   = "0000000000000000000000000000000000000000"
)

// headers are the headers of a request.
type headers map[string]string

func (h headers) get(name string) string {
	for key, value := range h {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func sign(token, body string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	body := `{"ref":"refs/heads/main"}`
	good := sign(secret, body)
	for name, test := range map[string]struct {
		host    v1alpha1.WebhookType
		token   string
		headers headers
		body    string
		valid   bool
	}{
		// The values of GitHub's documentation, "Validating webhook deliveries".
		"GitHub's own example is valid": {
			v1alpha1.WebhookGitHub, "It's a Secret to Everybody",
			headers{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			"Hello, World!", true,
		},
		"GitHub's signature of another body is refused":     {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature-256": "sha256=" + good}, body + " ", false},
		"GitHub's signature with another secret is refused": {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature-256": "sha256=" + sign(secret+"x", body)}, body, false},
		"GitHub without a signature is refused":             {v1alpha1.WebhookGitHub, secret, nil, body, false},
		"GitHub's old SHA-1 signature is refused":           {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature": "sha1=" + good}, body, false},
		"a signature without its prefix is refused":         {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature-256": good}, body, false},
		"a part of a signature is refused":                  {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature-256": "sha256=" + good[:32]}, body, false},
		"an empty signature is refused":                     {v1alpha1.WebhookGitHub, secret, headers{"X-Hub-Signature-256": "sha256="}, body, false},
		"Gitea's signature is valid":                        {v1alpha1.WebhookGitea, secret, headers{"X-Gitea-Signature": good}, body, true},
		"Forgejo's signature is valid":                      {v1alpha1.WebhookGitea, secret, headers{"X-Forgejo-Signature": good}, body, true},
		"Gitea's wrong signature is refused":                {v1alpha1.WebhookGitea, secret, headers{"X-Gitea-Signature": sign("another secret of it", body)}, body, false},
		"Bitbucket's signature is valid":                    {v1alpha1.WebhookBitbucket, secret, headers{"X-Hub-Signature": "sha256=" + good}, body, true},
		"Bitbucket's wrong signature is refused":            {v1alpha1.WebhookBitbucket, secret, headers{"X-Hub-Signature": "sha256=" + good}, body + body, false},
		"GitLab's token is valid":                           {v1alpha1.WebhookGitLab, secret, headers{"X-Gitlab-Token": secret}, body, true},
		"another token for GitLab is refused":               {v1alpha1.WebhookGitLab, secret, headers{"X-Gitlab-Token": secret + "x"}, body, false},
		"GitLab without a token is refused":                 {v1alpha1.WebhookGitLab, secret, nil, body, false},
		"a generic signature is valid":                      {v1alpha1.WebhookGeneric, secret, headers{"X-Signature": "sha256=" + good}, body, true},
		"the signature of another type is refused":          {v1alpha1.WebhookGitHub, secret, headers{"X-Gitea-Signature": good}, body, false},
		"an unknown type is refused":                        {"Gogs", secret, headers{"X-Gitea-Signature": good}, body, false},
		"an empty secret verifies nothing":                  {v1alpha1.WebhookGitHub, "", headers{"X-Hub-Signature-256": "sha256=" + sign("", body)}, body, false},
		"an empty secret verifies no GitLab token":          {v1alpha1.WebhookGitLab, "", headers{"X-Gitlab-Token": ""}, body, false},
		"a short secret verifies nothing":                   {v1alpha1.WebhookGeneric, "short", headers{"X-Signature": "sha256=" + sign("short", body)}, body, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := gitsource.VerifyWebhook(test.host, []byte(test.token), test.headers.get, []byte(test.body))
			if valid := err == nil; valid != test.valid || err != nil &&
				!errors.Is(err, gitsource.ErrWebhookSignature) {
				t.Errorf("valid: %v (%v), want %v", valid, err, test.valid)
			}
		})
	}
}

func TestToken(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string][]byte
		want string
		err  string
	}{
		"a line break at the end is not part of it": {map[string][]byte{"token": []byte(secret + "\n")}, secret, ""},
		"another key is named":                      {map[string][]byte{"password": []byte(secret)}, "", `no key "token"`},
		"a short one is refused, and not quoted":    {map[string][]byte{"token": []byte("hunter2")}, "", `its key "token" has 7 bytes: use at least 16`},
		"an empty one is refused":                   {map[string][]byte{"token": []byte("\n")}, "", "has 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := gitsource.WebhookToken(test.data)
			if string(got) != test.want || (err == nil) != (test.err == "") || err != nil &&
				!strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the error quotes the secret")
			}
		})
	}
}

func TestRead(t *testing.T) {
	push := `{"ref":"refs/heads/main","before":"` + c2 + `","after":"` + c1 + `","commits":[{"id":"` + c1 + `"}]}`
	main1 := []gitsource.PushedRef{{Ref: "refs/heads/main", Commit: c1}}
	for name, test := range map[string]struct {
		host    v1alpha1.WebhookType
		headers headers
		body    string
		want    []gitsource.PushedRef
		err     string
	}{
		"a push to GitHub":                     {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, push, main1, ""},
		"a push to GitHub, sent as a form":     {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push", "Content-Type": "application/x-www-form-urlencoded"}, url.Values{"payload": {push}}.Encode(), main1, ""},
		"GitHub's ping is no push":             {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "ping"}, `{"zen":"Design for failure."}`, nil, ""},
		"a deleted branch has no commit":       {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `{"ref":"refs/heads/main","after":"` + none + `"}`, []gitsource.PushedRef{{Ref: "refs/heads/main"}}, ""},
		"a push to Gitea":                      {v1alpha1.WebhookGitea, headers{"X-Gitea-Event": "push"}, push, main1, ""},
		"an issue in Gitea is no push":         {v1alpha1.WebhookGitea, headers{"X-Gitea-Event": "issues"}, `{}`, nil, ""},
		"a push to GitLab":                     {v1alpha1.WebhookGitLab, headers{"X-Gitlab-Event": "Push Hook"}, push, main1, ""},
		"a tag in GitLab":                      {v1alpha1.WebhookGitLab, headers{"X-Gitlab-Event": "Tag Push Hook"}, `{"ref":"refs/tags/v1","after":"` + c2 + `"}`, []gitsource.PushedRef{{Ref: "refs/tags/v1", Commit: c2}}, ""},
		"a merge request in GitLab is no push": {v1alpha1.WebhookGitLab, headers{"X-Gitlab-Event": "Merge Request Hook"}, push, nil, ""},
		"a push to Bitbucket Data Center":      {v1alpha1.WebhookBitbucket, headers{"X-Event-Key": "repo:refs_changed"}, `{"changes":[{"refId":"refs/heads/main","fromHash":"` + c2 + `","toHash":"` + c1 + `","type":"UPDATE"}]}`, main1, ""},
		"a test from Bitbucket Data Center":    {v1alpha1.WebhookBitbucket, headers{"X-Event-Key": "diagnostics:ping"}, `{"test":true}`, nil, ""},
		"the hash of a tag in the cloud is not compared": {
			v1alpha1.WebhookBitbucket,
			headers{"X-Event-Key": "repo:push"},
			`{"push":{"changes":[{"new":{"type":"tag","name":"v1","target":{"hash":"` + c1 + `"}}}]}}`,
			[]gitsource.PushedRef{{Ref: "refs/tags/v1"}},
			"",
		},
		"a push to Bitbucket Cloud, with a deleted branch": {
			v1alpha1.WebhookBitbucket,
			headers{"X-Event-Key": "repo:push"},
			`{"push":{"changes":[{"new":{"type":"branch","name":"main","target":{"hash":"` + c1 +
				`"}}},{"new":null,"old":{"type":"branch","name":"old","target":{"hash":"` + c2 + `"}}}]}}`,
			[]gitsource.PushedRef{{Ref: "refs/heads/main", Commit: c1}, {Ref: "refs/heads/old"}},
			"",
		},
		"a generic request":                  {v1alpha1.WebhookGeneric, nil, `{"ref":"refs/heads/main","commit":"` + c1 + `"}`, main1, ""},
		"a generic request of curl":          {v1alpha1.WebhookGeneric, headers{"Content-Type": "application/x-www-form-urlencoded"}, `{"ref":"refs/heads/main","commit":"` + c1 + `"}`, main1, ""},
		"a generic request of garbage":       {v1alpha1.WebhookGeneric, headers{"Content-Type": "application/x-www-form-urlencoded"}, `garbage`, nil, "reading the request: invalid character"},
		"a generic request without a body":   {v1alpha1.WebhookGeneric, nil, "", []gitsource.PushedRef{{}}, ""},
		"a hash that is none is left out":    {v1alpha1.WebhookGeneric, nil, `{"ref":"refs/heads/main","commit":"$(reboot)"}`, []gitsource.PushedRef{{Ref: "refs/heads/main"}}, ""},
		"a short ref name is refused":        {v1alpha1.WebhookGeneric, nil, `{"ref":"main"}`, nil, "names a ref that is not refs/<name>"},
		"a ref with a line break is refused": {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `{"ref":"refs/heads/a\nb"}`, nil, "names a ref that is not refs/<name>"},
		"a ref of another script is refused": {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `{"ref":"refs/heads/m\u202eain"}`, nil, "names a ref that is not refs/<name>"},
		"a very long ref is refused":         {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `{"ref":"refs/heads/` + strings.Repeat("a", 5000) + `"}`, nil, "names a ref that is not refs/<name>"},
		"a push without a ref is refused":    {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `{}`, nil, "no field ref"},
		"a body that is not JSON is refused": {v1alpha1.WebhookGitHub, headers{"X-GitHub-Event": "push"}, `ref=refs/heads/main`, nil, "reading the request: invalid character"},
		"a push of many refs names none":     {v1alpha1.WebhookBitbucket, headers{"X-Event-Key": "repo:refs_changed"}, `{"changes":[` + strings.Repeat(`{"refId":"refs/heads/x"},`, 100) + `{"refId":"refs/heads/main"}]}`, []gitsource.PushedRef{{}}, ""},
		"an unknown type is refused":         {"Gogs", nil, push, nil, `"Gogs" is no type of webhook`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := gitsource.ReadWebhook(test.host, test.headers.get, []byte(test.body))
			if !reflect.DeepEqual(got, test.want) || (err == nil) != (test.err == "") || err != nil &&
				!strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, %v; want %v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestRelevant(t *testing.T) {
	for name, test := range map[string]struct {
		follows v1alpha1.GitRef
		ref     string
		want    bool
	}{
		"the branch":                              {v1alpha1.GitRef{Branch: "main"}, "refs/heads/main", true},
		"another branch":                          {v1alpha1.GitRef{Branch: "main"}, "refs/heads/main2", false},
		"a tag with the name of the branch":       {v1alpha1.GitRef{Branch: "main"}, "refs/tags/main", false},
		"the default branch may be any branch":    {v1alpha1.GitRef{}, "refs/heads/trunk", true},
		"the default branch is no tag":            {v1alpha1.GitRef{}, "refs/tags/v1", false},
		"the tag":                                 {v1alpha1.GitRef{Tag: "v1"}, "refs/tags/v1", true},
		"another tag":                             {v1alpha1.GitRef{Tag: "v1"}, "refs/tags/v2", false},
		"any tag may match a range":               {v1alpha1.GitRef{SemVer: "~1.4"}, "refs/tags/v1.4.9", true},
		"no branch matches a range":               {v1alpha1.GitRef{SemVer: "~1.4"}, "refs/heads/main", false},
		"the full name":                           {v1alpha1.GitRef{Name: "refs/pull/7/head"}, "refs/pull/7/head", true},
		"HEAD may be any branch":                  {v1alpha1.GitRef{Name: "HEAD"}, "refs/heads/trunk", true},
		"a pinned commit never changes":           {v1alpha1.GitRef{Commit: c1, Branch: "main"}, "refs/heads/main", false},
		"a request without a ref may be anything": {v1alpha1.GitRef{Commit: c1}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := gitsource.RelevantRefs([]gitsource.PushedRef{
				{Ref: "refs/notes/commits"},
				{Ref: test.ref, Commit: c1},
			},
				test.follows)
			if (got != nil) != test.want || got != nil && (got.Ref != test.ref || got.Commit != c1) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// FuzzRead: no body makes Read fail otherwise than by an error, and every text of its result has its documented form.
func FuzzWebhook(f *testing.F) {
	for _, body := range []string{
		`{"ref":"refs/heads/main","after":"` + c1 + `"}`,
		`{"push":{"changes":[{"new":null,"old":null}]}}`, `{"changes":[{}]}`, `null`, `[]`, `payload=%7B%7D`,
	} {
		for host := range 5 {
			f.Add(host, body)
		}
	}
	hosts := []v1alpha1.WebhookType{
		v1alpha1.WebhookGitHub, v1alpha1.WebhookGitLab, v1alpha1.WebhookGitea,
		v1alpha1.WebhookBitbucket, v1alpha1.WebhookGeneric,
	}
	events := headers{
		"X-GitHub-Event": "push", "X-Gitlab-Event": "Push Hook", "X-Gitea-Event": "push",
		"X-Event-Key": "repo:push",
	}
	f.Fuzz(func(t *testing.T, host int, body string) {
		changes, err := gitsource.ReadWebhook(hosts[(host%len(hosts)+len(hosts))%len(hosts)], events.get, []byte(body))
		if err != nil && changes != nil {
			t.Fatalf("both %v and %v", changes, err)
		}
		for _, c := range changes {
			if c.Commit != "" && len(c.Commit) != 40 || c.Ref != "" &&
				(!strings.HasPrefix(c.Ref, "refs/") || len(c.Ref) > 505 || strings.ContainsAny(c.Ref,
					" \n\r\x00\x1b")) {
				t.Fatalf("%q %q", c.Ref, c.Commit)
			}
		}
	})
}
