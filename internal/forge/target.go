package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of a service, such as GitHub.
type Kind string

// The git services that Bunsen knows. Forgejo has Gitea's API.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Gitea  Kind = "gitea"
)

// KindOf returns the service of a repository's URL by the name of the host, also for a host of one's own, such as
// gitlab.example.com; false if the name does not tell.
func KindOf(host string) (Kind, bool) {
	host = strings.ToLower(host)
	for _, of := range []struct {
		part string
		kind Kind
	}{{"github", GitHub}, {"gitlab", GitLab}, {"codeberg", Gitea}, {"forgejo", Gitea}, {"gitea", Gitea}} {
		if strings.Contains(host, of.part) {
			return of.kind, true
		}
	}
	return "", false
}

// Target names a pull request (GitLab: merge request), and has the data that a client needs to reach it.
type Target struct {
	Kind Kind
	// API is the base URL: https://api.github.com, https://gitlab.com/api/v4, https://codeberg.org/api/v1.
	API string
	// Project is owner/name, or GitLab's numeric id.
	Project string
	// Number of the pull request.
	Number int
	// Head is the commit of the status: 40 hex digits.
	Head string
	// Base is the commit or branch of the merge, if known.
	Base string
	// Fork: the change comes from another repository, whose CI jobs have a read-only token.
	Fork bool
	// Run is the job's URL, to which the status links.
	Run string
	// Token is never printed.
	Token string
	// Author is the login of a token that may not read its user, such as that of a job.
	Author string
}

// tokens: the most specific first
var tokens = map[Kind][]string{
	GitHub: {"BUNSEN_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"},
	GitLab: {"BUNSEN_TOKEN", "GITLAB_TOKEN"},
	Gitea:  {"BUNSEN_TOKEN", "FORGEJO_TOKEN", "GITEA_TOKEN", "GITHUB_TOKEN"},
}

// FromEnv reads the target from the environment of the services' jobs, and from the event that started the job, as JSON
// of GitHub, Gitea and Forgejo (nil for none). The user must set the fields that Missing names.
func FromEnv(env func(string) string, event []byte) (Target, error) {
	t := Target{}
	switch {
	case env("GITLAB_CI") != "":
		t = fromGitLab(env)
	case env("FORGEJO_ACTIONS") != "":
		t.Kind, t.Author = Gitea, "forgejo-actions"
	case env("GITEA_ACTIONS") != "":
		t.Kind, t.Author = Gitea, "gitea-actions"
	case env("GITHUB_ACTIONS") != "":
		t.Kind, t.Author = GitHub, "github-actions[bot]"
	default:
		return t, nil
	}
	for _, name := range tokens[t.Kind] {
		if t.Token == "" {
			t.Token = env(name)
		}
	}
	if t.Kind == GitLab {
		return t, nil
	}
	return t, t.fromActions(env, event)
}

func fromGitLab(env func(string) string) Target {
	number, _ := strconv.Atoi(env("CI_MERGE_REQUEST_IID")) // The variable does not exist outside of merge requests.
	source, target := env("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"), env("CI_MERGE_REQUEST_PROJECT_ID")
	// This variable is set if CI_COMMIT_SHA is a merge commit that the service created.
	head := env("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
	if head == "" {
		head = env("CI_COMMIT_SHA")
	}
	project := target
	if project == "" {
		project = env("CI_PROJECT_ID")
	}
	return Target{
		Kind: GitLab, API: env("CI_API_V4_URL"), Project: project, Number: number, Head: head,
		Base: env("CI_MERGE_REQUEST_DIFF_BASE_SHA"), Fork: source != target, Run: env("CI_JOB_URL"),
	}
}

type pullEvent struct {
	PullRequest *struct {
		Number     int
		Head, Base struct {
			SHA  string
			Repo struct {
				FullName string `json:"full_name"`
			}
		}
	} `json:"pull_request"`
}

func (t *Target) fromActions(env func(string) string, event []byte) error {
	t.API, t.Project = env("GITHUB_API_URL"), env("GITHUB_REPOSITORY")
	run := map[Kind]string{GitHub: "GITHUB_RUN_ID"}[t.Kind]
	if env("FORGEJO_ACTIONS") != "" {
		// Forgejo's URLs have the number of the run in the repository. For Gitea, the address depends on its version,
		// so the target has none.
		run = "GITHUB_RUN_NUMBER"
	}
	if server, id := env("GITHUB_SERVER_URL"), env(run); run != "" && server != "" && id != "" {
		t.Run = server + "/" + t.Project + "/actions/runs/" + id
	}
	if len(event) == 0 {
		return nil
	}
	var e pullEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return fmt.Errorf("reading the job's event: %w", err)
	}
	if e.PullRequest == nil {
		return nil
	}
	t.Number, t.Head, t.Base = e.PullRequest.Number, e.PullRequest.Head.SHA, e.PullRequest.Base.SHA
	t.Fork = e.PullRequest.Head.Repo.FullName != e.PullRequest.Base.Repo.FullName
	return nil
}

// Missing names the empty fields that are required to publish, and how to set them. A dry run needs no token.
func (t Target) Missing(dryRun bool) error {
	var errs []error
	need := func(there bool, what string) {
		if !there {
			errs = append(errs, errors.New(what))
		}
	}
	need(t.Kind != "", "the service: --host github, gitlab or gitea (this is not a job of a known service)")
	need(t.API != "", "the service's API: --api https://…")
	need(t.Project != "", "the repository: --project owner/name")
	need(t.Number > 0, "the pull request: --pull NUMBER (the job was not started by one)")
	need(t.Head != "", "its last commit: --commit HASH")
	// The CI job of a fork may have no token, and then prints the comment to its log.
	if names, known := tokens[t.Kind]; known && !t.Fork && !dryRun {
		need(t.Token != "", "a token, in the environment as "+strings.Join(names, " or "))
	} else if t.Kind != "" && !known {
		need(false, fmt.Sprintf("the service: --host %q is not github, gitlab or gitea", t.Kind))
	}
	if len(errs) > 0 {
		return fmt.Errorf("the pull request is not known completely; set:\n%w", errors.Join(errs...))
	}
	return nil
}
