package forge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
)

// Proposal is a pull request to open (GitLab: merge request). Both branches are in the same repository.
type Proposal struct {
	// Branch has the commits, Base is that of the merge.
	Branch, Base string
	// one line, and Markdown
	Title, Body string
}

// Opener opens pull requests in a repository on its service.
type Opener interface {
	// Open returns the address of the page. After an error that fault.IsUnknown reports, the pull request may be open.
	Open(ctx context.Context, p Proposal) (string, error)
	// Opened returns the address of the open pull request from the branch of p to its base; empty if there is none.
	Opened(ctx context.Context, p Proposal) (string, error)
}

// OpenPull opens a pull request and returns the address of its page. If the answer is lost, it looks for that of the
// branch.
func OpenPull(ctx context.Context, o Opener, p Proposal) (string, error) {
	page, err := o.Open(ctx, p)
	if !fault.IsUnknown(err) {
		return page, err
	}
	page, lookErr := o.Opened(ctx, p)
	switch {
	case lookErr != nil:
		return "", errors.Join(err, fmt.Errorf("looking for the pull request of branch %s: %w", p.Branch, lookErr))
	case page == "":
		return "", err
	}
	return page, nil
}

// Site is the repository of a clone on its service.
type Site struct {
	// Target has the kind, the API and the project.
	Target Target
	// Web is the repository's page, without a slash at the end.
	Web string
}

// SiteOf finds the service of a repository from its scheme (https, http or ssh), its host with the port of the web
// server, and its path. An empty kind is guessed from the host. Kind and API are empty if the service is unknown.
func SiteOf(kind Kind, scheme, host, path string) Site {
	if kind == "" {
		kind = guess(host)
	}
	if scheme != "http" {
		scheme = "https"
	}
	root, project := scheme+"://"+host, strings.Trim(path, "/")
	s := Site{Web: root + "/" + project, Target: Target{Kind: kind, Project: project}}
	// The service runs in a directory of the host.
	if parts := strings.Split(project, "/"); kind != GitLab && len(parts) > 2 {
		s.Target.Project = strings.Join(parts[len(parts)-2:], "/")
		root += "/" + strings.Join(parts[:len(parts)-2], "/")
	}
	switch {
	case kind == GitHub && host == "github.com":
		s.Target.API = "https://api.github.com"
	case kind == GitHub:
		s.Target.API = root + "/api/v3"
	case kind == GitLab:
		s.Target.API = root + "/api/v4"
	case kind == Gitea:
		s.Target.API = root + "/api/v1"
	}
	return s
}

// guess knows well-known hosts, and hosts whose name contains that of the service.
func guess(host string) Kind {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	first, _, _ := strings.Cut(host, ".")
	switch {
	case host == "github.com" || first == "github":
		return GitHub
	case first == "gitlab":
		return GitLab
	case host == "codeberg.org" || first == "gitea" || first == "forgejo":
		return Gitea
	}
	return ""
}

// NewPull returns the page on which a user opens the pull request; empty if the service is unknown.
func (s Site) NewPull(base, branch string) string {
	switch s.Target.Kind {
	case GitHub, Gitea:
		return s.Web + "/compare/" + url.PathEscape(base) + "..." + branch
	case GitLab:
		q := url.Values{"merge_request[source_branch]": {branch}, "merge_request[target_branch]": {base}}
		return s.Web + "/-/merge_requests/new?" + q.Encode()
	}
	return ""
}

// UserToken returns the token in a user's environment: BUNSEN_TOKEN, or that of the service's own command line. A token
// of github.com is for no other host.
func UserToken(t Target, env func(string) string) string {
	names := []string{"BUNSEN_TOKEN"}
	switch {
	case t.Kind == GitHub && t.API == "https://api.github.com":
		names = append(names, "GITHUB_TOKEN", "GH_TOKEN")
	case t.Kind == GitHub:
		names = append(names, "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
	case t.Kind == GitLab:
		names = append(names, "GITLAB_TOKEN")
	case t.Kind == Gitea:
		names = append(names, "FORGEJO_TOKEN", "GITEA_TOKEN")
	}
	for _, name := range names {
		if value := env(name); value != "" {
			return value
		}
	}
	return ""
}
