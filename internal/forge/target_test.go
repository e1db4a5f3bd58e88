package forge_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/forge"
)

const (
	ownEvent  = `{"pull_request":{"number":7,"head":{"sha":"aaa","repo":{"full_name":"acme/os-config"}},"base":{"sha":"bbb","repo":{"full_name":"acme/os-config"}}}}`
	forkEvent = `{"pull_request":{"number":7,"head":{"sha":"aaa","repo":{"full_name":"mallory/os-config"}},"base":{"sha":"bbb","repo":{"full_name":"acme/os-config"}}}}`
)

func TestTheTargetIsReadFromAJobsEnvironment(t *testing.T) {
	actions := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_API_URL": "https://api.github.com", "GITHUB_REPOSITORY": "acme/os-config",
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_RUN_ID": "12", "GITHUB_TOKEN": "t1",
	}
	github := forge.Target{
		Kind: forge.GitHub, API: "https://api.github.com", Project: "acme/os-config", Number: 7, Head: "aaa",
		Base: "bbb",
		Run:  "https://github.com/acme/os-config/actions/runs/12", Token: "t1", Author: "github-actions[bot]",
	}
	lab := map[string]string{
		"GITLAB_CI": "true", "CI_API_V4_URL": "https://gitlab.com/api/v4", "CI_PROJECT_ID": "42",
		"CI_MERGE_REQUEST_IID":        "9",
		"CI_MERGE_REQUEST_PROJECT_ID": "42", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42", "CI_COMMIT_SHA": "ccc",
		"CI_MERGE_REQUEST_DIFF_BASE_SHA": "bbb", "CI_JOB_URL": "https://gitlab.com/j/1", "GITLAB_TOKEN": "t2",
	}
	gitlab := forge.Target{
		Kind: forge.GitLab, API: "https://gitlab.com/api/v4", Project: "42", Number: 9, Head: "ccc", Base: "bbb",
		Run: "https://gitlab.com/j/1", Token: "t2",
	}
	for name, c := range map[string]struct {
		env   map[string]string
		more  []string
		event string
		want  forge.Target
	}{
		"GitHub Actions":                      {actions, nil, ownEvent, github},
		"GitHub Actions of a fork":            {actions, nil, forkEvent, with(github, func(t *forge.Target) { t.Fork = true })},
		"GitHub Actions of a push":            {actions, nil, `{"ref":"refs/heads/main"}`, with(github, func(t *forge.Target) { t.Number, t.Head, t.Base = 0, "", "" })},
		"GitHub Actions with a token of ours": {actions, []string{"BUNSEN_TOKEN=t9"}, ownEvent, with(github, func(t *forge.Target) { t.Token = "t9" })},
		"Forgejo Actions, where a run's page has its number": {
			actions,
			[]string{"FORGEJO_ACTIONS=true", "GITHUB_API_URL=https://codeberg.org/api/v1", "GITHUB_RUN_NUMBER=3"},
			ownEvent, with(github, func(t *forge.Target) {
				t.Kind, t.Author, t.API = forge.Gitea, "forgejo-actions", "https://codeberg.org/api/v1"
				t.Run = "https://github.com/acme/os-config/actions/runs/3"
			}),
		},
		"Gitea Actions, where it depends": {
			actions,
			[]string{"GITEA_ACTIONS=true", "GITHUB_RUN_NUMBER=3"},
			ownEvent,
			with(github, func(t *forge.Target) {
				t.Kind, t.Author, t.Run = forge.Gitea, "gitea-actions", ""
			}),
		},
		"GitLab CI":                    {lab, nil, "", gitlab},
		"GitLab CI of a fork":          {lab, []string{"CI_MERGE_REQUEST_SOURCE_PROJECT_ID=77"}, "", with(gitlab, func(t *forge.Target) { t.Fork = true })},
		"GitLab CI of a merged result": {lab, []string{"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA=ddd"}, "", with(gitlab, func(t *forge.Target) { t.Head = "ddd" })},
		"a laptop":                     {nil, nil, "", forge.Target{}},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{}
			for k, v := range c.env {
				env[k] = v
			}
			for _, kv := range c.more {
				k, v, _ := strings.Cut(kv, "=")
				env[k] = v
			}
			got, err := forge.FromEnv(func(k string) string { return env[k] }, []byte(c.event))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func with(t forge.Target, change func(*forge.Target)) forge.Target {
	change(&t)
	return t
}

func TestWhatIsMissingIsNamedAllAtOnce(t *testing.T) {
	err := forge.Target{}.Missing(false)
	for _, word := range []string{"--host", "--api", "--project", "--pull", "--commit"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
	whole := forge.Target{Kind: forge.GitHub, API: "a", Project: "b", Number: 1, Head: "c", Token: "d"}
	if err := whole.Missing(false); err != nil {
		t.Error(err)
	}
	whole.Token = ""
	if err := whole.Missing(false); err == nil || !strings.Contains(err.Error(), "GITHUB_TOKEN") {
		t.Errorf("got %v", err)
	}
}

func TestTheJobOfAForkNeedsNoToken(t *testing.T) {
	fork := forge.Target{Kind: forge.GitLab, API: "a", Project: "b", Number: 1, Head: "c", Fork: true}
	if err := fork.Missing(false); err != nil {
		t.Errorf("it could print the plan: %v", err)
	}
	fork.Fork = false
	if err := fork.Missing(false); err == nil {
		t.Error("a job of the project itself needs one")
	}
}

func TestAServiceThatIsNoneIsNamed(t *testing.T) {
	err := forge.Target{Kind: "bitbucket", API: "a", Project: "b", Number: 1, Head: "c", Token: "d"}.Missing(false)
	if err == nil || !strings.Contains(err.Error(), `"bitbucket" is not github, gitlab or gitea`) {
		t.Errorf("got %v", err)
	}
}

func TestAnEventThatIsNoJSONIsAnError(t *testing.T) {
	env := func(k string) string { return map[string]string{"GITHUB_ACTIONS": "true"}[k] }
	if _, err := forge.FromEnv(env, []byte("{")); err == nil {
		t.Error("want an error")
	}
}
