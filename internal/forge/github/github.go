package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v74/github"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/forge"
)

// Pull is a pull request on GitHub or GitHub Enterprise Server.
type Pull struct {
	client      *github.Client
	owner, repo string
	target      forge.Target
}

var (
	_ forge.Host   = (*Pull)(nil)
	_ forge.Commit = (*Pull)(nil)
	_ forge.Opener = (*Pull)(nil)
)

// canceled is the state that GitHub gets for forge.Canceled, because GitHub has only four states.
const canceled = "error"

// New returns the pull request. The client limits the time of each request.
func New(t forge.Target, client *http.Client) (*Pull, error) {
	owner, repo, ok := strings.Cut(t.Project, "/")
	if !ok || strings.Contains(repo, "/") {
		return nil, fmt.Errorf("project %q: want owner/name", t.Project)
	}
	c := github.NewClient(client).WithAuthToken(t.Token)
	base, err := c.BaseURL.Parse(strings.TrimSuffix(t.API, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("reading the API's URL: %w", err)
	}
	c.BaseURL = base
	return &Pull{c, owner, repo, t}, nil
}

// Self implements forge.Host.
func (p *Pull) Self(ctx context.Context) (string, error) {
	user, _, err := p.client.Users.Get(ctx, "")
	if err = explain(err); errors.Is(err, forge.ErrForbidden) && p.target.Author != "" {
		return p.target.Author, nil
	}
	return user.GetLogin(), err
}

// Comments implements forge.Host.
func (p *Pull) Comments(ctx context.Context) ([]forge.Comment, error) {
	var out []forge.Comment
	opts := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, resp, err := p.client.Issues.ListComments(ctx, p.owner, p.repo, p.target.Number, opts)
		if err != nil {
			return nil, explain(err)
		}
		for _, c := range page {
			out = append(out, forge.Comment{ID: c.GetID(), Author: c.GetUser().GetLogin(), Body: c.GetBody()})
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// Create implements forge.Host.
func (p *Pull) Create(ctx context.Context, body string) error {
	_, _, err := p.client.Issues.CreateComment(ctx, p.owner, p.repo, p.target.Number, &github.IssueComment{Body: &body})
	return explainWrite(err)
}

// Edit implements forge.Host.
func (p *Pull) Edit(ctx context.Context, id int64, body string) error {
	_, _, err := p.client.Issues.EditComment(ctx, p.owner, p.repo, id, &github.IssueComment{Body: &body})
	return explainWrite(err)
}

// Status implements forge.Host.
func (p *Pull) Status(ctx context.Context, s forge.Status) error {
	state := string(s.State)
	if s.State == forge.Canceled {
		state = canceled
	}
	status := &github.RepoStatus{State: &state, Context: &s.Context, Description: &s.Description}
	if s.URL != "" {
		status.TargetURL = &s.URL
	}
	_, _, err := p.client.Repositories.CreateStatus(ctx, p.owner, p.repo, p.target.Head, status)
	return explainWrite(err)
}

// Statuses implements forge.Commit.
func (p *Pull) Statuses(ctx context.Context) ([]forge.PostedStatus, error) {
	var out []forge.PostedStatus
	opts := &github.ListOptions{PerPage: 100}
	for {
		page, resp, err := p.client.Repositories.GetCombinedStatus(ctx, p.owner, p.repo, p.target.Head, opts)
		if err != nil {
			return nil, explain(err)
		}
		for _, s := range page.Statuses {
			state := forge.State(s.GetState())
			if state == canceled {
				state = forge.Canceled
			}
			out = append(out, forge.PostedStatus{
				Status: forge.Status{
					Context: s.GetContext(), State: state, Description: s.GetDescription(),
					URL: s.GetTargetURL(),
				}, Time: s.GetUpdatedAt().Time,
			})
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// MergedBy implements forge.Commit.
func (p *Pull) MergedBy(ctx context.Context) (int, error) {
	pulls, _, err := p.client.PullRequests.ListPullRequestsWithCommit(ctx, p.owner, p.repo, p.target.Head,
		&github.ListOptions{PerPage: 100})
	if err != nil {
		return 0, explain(err)
	}
	for _, x := range pulls {
		if x.MergedAt != nil && x.GetMergeCommitSHA() == p.target.Head {
			return x.GetNumber(), nil
		}
	}
	return 0, nil
}

// Open implements forge.Opener.
func (p *Pull) Open(ctx context.Context, x forge.Proposal) (string, error) {
	pull, _, err := p.client.PullRequests.Create(ctx, p.owner, p.repo,
		&github.NewPullRequest{Title: &x.Title, Head: &x.Branch, Base: &x.Base, Body: &x.Body})
	return pull.GetHTMLURL(), explainWrite(err)
}

// Opened implements forge.Opener.
func (p *Pull) Opened(ctx context.Context, x forge.Proposal) (string, error) {
	pulls, _, err := p.client.PullRequests.List(ctx, p.owner, p.repo,
		&github.PullRequestListOptions{State: "open", Head: p.owner + ":" + x.Branch, Base: x.Base})
	if err != nil || len(pulls) == 0 {
		return "", explain(err)
	}
	return pulls[0].GetHTMLURL(), nil
}

// explain adds forge.ErrForbidden to errors about permissions, which the job of a fork gets.
func explain(err error) error {
	if code := statusOf(err); code == http.StatusForbidden {
		return fmt.Errorf("%w (%w)", forge.ErrForbidden, err)
	}
	return err
}

// explainWrite is explain for a request that changes something: it marks an error without an answer.
func explainWrite(err error) error { return fault.HTTPRequest(explain(err), statusOf(err)) }

// statusOf returns the status code of the answer that is an error; 0 if there was no answer.
func statusOf(err error) int {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	if errors.As(err, new(*github.RateLimitError)) || errors.As(err, new(*github.AbuseRateLimitError)) {
		return http.StatusTooManyRequests
	}
	return 0
}
