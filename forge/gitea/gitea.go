package gitea

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/bunsen-os/bunsen/forge"
)

// version is the oldest that has all that is used here. Naming it keeps the client from asking first, and Forgejo
// answers with numbers of its own.
const version = "1.20.0"

// pageSize is what instances grant by default at most.
const pageSize = 50

// Pull is a pull request on Gitea or Forgejo.
type Pull struct {
	http        *http.Client
	owner, repo string
	target      forge.Target
}

var _ forge.Host = (*Pull)(nil)

// New prepares to speak to a pull request through a client, which bounds the time of a request.
func New(t forge.Target, client *http.Client) (*Pull, error) {
	owner, repo, ok := strings.Cut(t.Project, "/")
	if !ok || strings.Contains(repo, "/") {
		return nil, fmt.Errorf("project %q: want owner/name", t.Project)
	}
	t.API = strings.TrimSuffix(strings.TrimSuffix(t.API, "/"), "/api/v1") // the client adds it
	return &Pull{client, owner, repo, t}, nil
}

// client is made for each call: the library takes the context there.
func (p *Pull) client(ctx context.Context) (*gitea.Client, error) {
	c, err := gitea.NewClient(p.target.API, gitea.SetToken(p.target.Token), gitea.SetHTTPClient(p.http), gitea.SetGiteaVersion(version), gitea.SetContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("preparing to speak to Gitea: %w", err)
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
		if refused := forbidden(resp) || resp != nil && resp.StatusCode == http.StatusNotFound; refused && p.target.Author != "" {
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
		list, resp, err := c.ListIssueComments(p.owner, p.repo, int64(p.target.Number), gitea.ListIssueCommentOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, explain(resp, err)
		}
		fresh := 0
		for _, x := range list {
			if known[x.ID] {
				continue
			}
			known[x.ID], fresh = true, fresh+1
			author := ""
			if x.Poster != nil {
				author = x.Poster.UserName
			}
			out = append(out, forge.Comment{ID: x.ID, Author: author, Body: x.Body})
		}
		if fresh == 0 { // some versions know no pages here, and give all of them each time
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
	_, resp, err := c.CreateIssueComment(p.owner, p.repo, int64(p.target.Number), gitea.CreateIssueCommentOption{Body: body})
	return explain(resp, err)
}

// Edit implements forge.Host.
func (p *Pull) Edit(ctx context.Context, id int64, body string) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.EditIssueComment(p.owner, p.repo, id, gitea.EditIssueCommentOption{Body: body})
	return explain(resp, err)
}

// Status implements forge.Host.
func (p *Pull) Status(ctx context.Context, s forge.Status) error {
	c, err := p.client(ctx)
	if err != nil {
		return err
	}
	_, resp, err := c.CreateStatus(p.owner, p.repo, p.target.Head, gitea.CreateStatusOption{
		State: gitea.StatusState(s.State), TargetURL: s.URL, Description: s.Description, Context: s.Context,
	})
	return explain(resp, err)
}

func forbidden(resp *gitea.Response) bool {
	return resp != nil && resp.Response != nil && (resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized)
}

// explain marks refusals, which a job of a fork meets.
func explain(resp *gitea.Response, err error) error {
	if err != nil && forbidden(resp) {
		return fmt.Errorf("%w (%w)", forge.ErrForbidden, err)
	}
	return err
}
