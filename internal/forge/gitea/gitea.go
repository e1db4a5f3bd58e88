package gitea

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/forge"
)

// version is the oldest version of Gitea with all calls that the package uses. A client with a fixed version does not
// ask the server for its version, which is a different number on Forgejo.
const version = "1.20.0"

// pageSize is how many items one page has. Servers have this default limit.
const pageSize = 50

// Pull is a pull request on Gitea or Forgejo.
type Pull struct {
	http        *http.Client
	owner, repo string
	target      forge.Target
}

var (
	_ forge.Host   = (*Pull)(nil)
	_ forge.Commit = (*Pull)(nil)
	_ forge.Opener = (*Pull)(nil)
)

// New returns the pull request. The client limits the time of each request.
func New(t forge.Target, client *http.Client) (*Pull, error) {
	owner, repo, ok := strings.Cut(t.Project, "/")
	if !ok || strings.Contains(repo, "/") {
		return nil, fmt.Errorf("project %q: want owner/name", t.Project)
	}
	// The client library adds this part of the path.
	t.API = strings.TrimSuffix(strings.TrimSuffix(t.API, "/"), "/api/v1")
	return &Pull{client, owner, repo, t}, nil
}

// client creates a client for each call, because the library gets the context when it creates a client.
func (p *Pull) client(ctx context.Context) (*gitea.Client, error) {
	c, err := gitea.NewClient(p.target.API, gitea.SetToken(p.target.Token), gitea.SetHTTPClient(p.http),
		gitea.SetGiteaVersion(version), gitea.SetContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("creating the Gitea client: %w", err)
	}
	return c, nil
}

// Self implements forge.Host.
func (p *Pull) Self(ctx context.Context) (string, error) {
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
		return "", explain(resp, err)
	}
	return user.UserName, nil
}

// Comments implements forge.Host.
func (p *Pull) Comments(ctx context.Context) ([]forge.Comment, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	var out []forge.Comment
	known := map[int64]bool{}
	for page := 1; ; page++ {
		list, resp, err := c.ListIssueComments(p.owner, p.repo, int64(p.target.Number),
			gitea.ListIssueCommentOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, explain(resp, err)
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
			out = append(out, forge.Comment{ID: x.ID, Author: author, Body: x.Body})
		}
		if added == 0 { // Some versions of Gitea return all comments on each page.
			return out, nil
		}
	}
}

// Create implements forge.Host.
func (p *Pull) Create(ctx context.Context, body string) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.CreateIssueComment(p.owner, p.repo, int64(p.target.Number),
		gitea.CreateIssueCommentOption{Body: body})
	return explainWrite(resp, err)
}

// Edit implements forge.Host.
func (p *Pull) Edit(ctx context.Context, id int64, body string) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.EditIssueComment(p.owner, p.repo, id, gitea.EditIssueCommentOption{Body: body})
	return explainWrite(resp, err)
}

// Status implements forge.Host.
func (p *Pull) Status(ctx context.Context, s forge.Status) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	state := gitea.StatusState(s.State)
	if s.State == forge.Canceled {
		state = gitea.StatusWarning // Gitea has no state for canceled.
	}
	_, resp, err := c.CreateStatus(p.owner, p.repo, p.target.Head, gitea.CreateStatusOption{
		State: state, TargetURL: s.URL, Description: s.Description, Context: s.Context,
	})
	return explainWrite(resp, err)
}

// Statuses implements forge.Commit.
func (p *Pull) Statuses(ctx context.Context) ([]forge.PostedStatus, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	all, resp, err := c.GetCombinedStatus(p.owner, p.repo, p.target.Head)
	if err != nil {
		return nil, explain(resp, err)
	}
	var out []forge.PostedStatus
	for _, s := range all.Statuses {
		state := forge.State(s.State)
		if s.State == gitea.StatusWarning {
			state = forge.Canceled
		}
		out = append(out, forge.PostedStatus{Status: forge.Status{
			Context: s.Context, State: state,
			Description: s.Description, URL: s.TargetURL,
		}, Time: s.Updated})
	}
	return out, nil
}

// MergedBy implements forge.Commit.
func (p *Pull) MergedBy(ctx context.Context) (int, error) {
	c, err := p.client(ctx)
	if err != nil {
		return 0, err
	}
	pull, resp, err := c.GetCommitPullRequest(p.owner, p.repo, p.target.Head)
	if resp != nil && resp.Response != nil && resp.StatusCode == http.StatusNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, explain(resp, err)
	}
	if !pull.HasMerged {
		return 0, nil
	}
	return int(pull.Index), nil
}

// Open implements forge.Opener.
func (p *Pull) Open(ctx context.Context, x forge.Proposal) (string, error) {
	c, err := p.client(ctx)
	if err != nil {
		return "", err
	}
	pull, resp, err := c.CreatePullRequest(p.owner, p.repo, gitea.CreatePullRequestOption{
		Head: x.Branch, Base: x.Base,
		Title: x.Title, Body: x.Body,
	})
	if err != nil {
		return "", explainWrite(resp, err)
	}
	return pull.HTMLURL, nil
}

// Opened implements forge.Opener.
func (p *Pull) Opened(ctx context.Context, x forge.Proposal) (string, error) {
	c, err := p.client(ctx)
	if err != nil {
		return "", err
	}
	for page := 1; ; page++ {
		pulls, resp, err := c.ListRepoPullRequests(p.owner, p.repo, gitea.ListPullRequestsOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}, State: gitea.StateOpen,
			Sort: "recentupdate",
		})
		if err != nil || len(pulls) == 0 {
			return "", explain(resp, err)
		}
		for _, pull := range pulls {
			if pull.Head != nil && pull.Base != nil && pull.Head.Ref == x.Branch && pull.Base.Ref == x.Base {
				return pull.HTMLURL, nil
			}
		}
	}
}

func forbidden(resp *gitea.Response) bool {
	return resp != nil && resp.Response != nil && (resp.StatusCode == http.StatusForbidden ||
		resp.StatusCode == http.StatusUnauthorized)
}

// explain adds forge.ErrForbidden to errors about permissions, which the job of a fork gets.
func explain(resp *gitea.Response, err error) error {
	if err != nil && forbidden(resp) {
		return fmt.Errorf("%w (%w)", forge.ErrForbidden, err)
	}
	return err
}

// explainWrite is explain for a request that changes something: it marks an error without an answer.
func explainWrite(resp *gitea.Response, err error) error {
	code := 0
	if resp != nil && resp.Response != nil {
		code = resp.StatusCode
	}
	return fault.HTTPRequest(explain(resp, err), code)
}
