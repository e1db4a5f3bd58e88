package forge

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/bunsen-os/bunsen/api/fault"
)

// version: the oldest version with all calls that are used here. With a fixed version, the client does not ask the
// server, whose number is a different one on Forgejo.
const version = "1.20.0"

// pageSize: the default limit of servers
const pageSize = 50

// GiteaPull is a pull request on Gitea or Forgejo.
type GiteaPull struct {
	http        *http.Client
	owner, repo string
	target      Target
}

var (
	_ Host   = (*GiteaPull)(nil)
	_ Commit = (*GiteaPull)(nil)
)

// NewGitea returns the pull request. The client limits the time of each request.
func NewGitea(t Target, client *http.Client) (*GiteaPull, error) {
	owner, repo, ok := strings.Cut(t.Project, "/")
	if !ok || strings.Contains(repo, "/") {
		return nil, fmt.Errorf("project %q: want owner/name", t.Project)
	}
	// The client library adds this part of the path.
	t.API = strings.TrimSuffix(strings.TrimSuffix(t.API, "/"), "/api/v1")
	return &GiteaPull{client, owner, repo, t}, nil
}

// client creates one for each call, because the library takes the context then.
func (p *GiteaPull) client(ctx context.Context) (*gitea.Client, error) {
	c, err := gitea.NewClient(p.target.API, gitea.SetToken(p.target.Token), gitea.SetHTTPClient(p.http),
		gitea.SetGiteaVersion(version), gitea.SetContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("creating the Gitea client: %w", err)
	}
	return c, nil
}

// Self implements Host.
func (p *GiteaPull) Self(ctx context.Context) (string, error) {
	c, err := p.client(ctx)
	if err != nil {
		return "", err
	}
	user, resp, err := c.GetMyUserInfo()
	if err != nil {
		if isRefused := forbidden(resp) || resp != nil && resp.StatusCode == http.StatusNotFound; isRefused &&
			p.target.Author != "" {
			return p.target.Author, nil
		}
		return "", giteaExplain(resp, err)
	}
	return user.UserName, nil
}

// Comments implements Host.
func (p *GiteaPull) Comments(ctx context.Context) ([]Comment, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	var out []Comment
	known := map[int64]bool{}
	for page := 1; ; page++ {
		list, resp, err := c.ListIssueComments(p.owner, p.repo, int64(p.target.Number),
			gitea.ListIssueCommentOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, giteaExplain(resp, err)
		}
		added := 0
		for _, x := range list {
			if known[x.ID] {
				continue
			}
			known[x.ID], added = true, added+1
			author := ""
			if x.Poster != nil {
				author = x.Poster.UserName
			}
			out = append(out, Comment{ID: x.ID, Author: author, Body: x.Body})
		}
		if added == 0 { // Some versions of Gitea return all comments on each page.
			return out, nil
		}
	}
}

// Create implements Host.
func (p *GiteaPull) Create(ctx context.Context, body string) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.CreateIssueComment(p.owner, p.repo, int64(p.target.Number),
		gitea.CreateIssueCommentOption{Body: body})
	return giteaExplainWrite(resp, err)
}

// Edit implements Host.
func (p *GiteaPull) Edit(ctx context.Context, id int64, body string) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.EditIssueComment(p.owner, p.repo, id, gitea.EditIssueCommentOption{Body: body})
	return giteaExplainWrite(resp, err)
}

// Status implements Host.
func (p *GiteaPull) Status(ctx context.Context, s Status) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	state := gitea.StatusState(s.State)
	if s.State == Canceled {
		state = gitea.StatusWarning // Gitea has no state for canceled.
	}
	_, resp, err := c.CreateStatus(p.owner, p.repo, p.target.Head, gitea.CreateStatusOption{
		State: state, TargetURL: s.URL, Description: s.Description, Context: s.Context,
	})
	return giteaExplainWrite(resp, err)
}

// Statuses implements Commit.
func (p *GiteaPull) Statuses(ctx context.Context) ([]PostedStatus, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	all, resp, err := c.GetCombinedStatus(p.owner, p.repo, p.target.Head)
	if err != nil {
		return nil, giteaExplain(resp, err)
	}
	var out []PostedStatus
	for _, s := range all.Statuses {
		state := State(s.State)
		if s.State == gitea.StatusWarning {
			state = Canceled
		}
		out = append(out, PostedStatus{Status: Status{
			Context: s.Context, State: state,
			Description: s.Description, URL: s.TargetURL,
		}, Time: s.Updated})
	}
	return out, nil
}

// MergedBy implements Commit.
func (p *GiteaPull) MergedBy(ctx context.Context) (int, error) {
	c, err := p.client(ctx)
	if err != nil {
		return 0, err
	}
	pull, resp, err := c.GetCommitPullRequest(p.owner, p.repo, p.target.Head)
	if resp != nil && resp.Response != nil && resp.StatusCode == http.StatusNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, giteaExplain(resp, err)
	}
	if !pull.HasMerged {
		return 0, nil
	}
	return int(pull.Index), nil
}

func forbidden(resp *gitea.Response) bool {
	return resp != nil && resp.Response != nil && (resp.StatusCode == http.StatusForbidden ||
		resp.StatusCode == http.StatusUnauthorized)
}

// giteaExplain marks errors about permissions as ErrForbidden, which the job of a fork gets.
func giteaExplain(resp *gitea.Response, err error) error {
	if err != nil && forbidden(resp) {
		return fmt.Errorf("%w (%w)", ErrForbidden, err)
	}
	return err
}

// giteaExplainWrite also marks an error without an answer to a request that changes something.
func giteaExplainWrite(resp *gitea.Response, err error) error {
	code := 0
	if resp != nil && resp.Response != nil {
		code = resp.StatusCode
	}
	return fault.HTTPRequest(giteaExplain(resp, err), code)
}
