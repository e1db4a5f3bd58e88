package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v93/github"

	"github.com/bunsen-os/bunsen/api/fault"
)

// GitHubPull is a pull request on GitHub or GitHub Enterprise Server.
type GitHubPull struct {
	client      *github.Client
	owner, repo string
	target      Target
}

var (
	_ Host   = (*GitHubPull)(nil)
	_ Commit = (*GitHubPull)(nil)
)

// canceled: GitHub has only four states.
const canceled = "error"

// NewGitHub returns the pull request. The client limits the time of each request.
func NewGitHub(t Target, client *http.Client) (*GitHubPull, error) {
	owner, repo, ok := strings.Cut(t.Project, "/")
	if !ok || strings.Contains(repo, "/") {
		return nil, fmt.Errorf("project %q: want owner/name", t.Project)
	}
	api := strings.TrimSuffix(t.API, "/") + "/"
	options := []github.ClientOptionsFunc{github.WithHTTPClient(client), github.WithURLs(&api, nil)}
	if t.Token != "" {
		options = append(options, github.WithAuthToken(t.Token))
	}
	c, err := github.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("reading the API's URL: %w", err)
	}
	return &GitHubPull{c, owner, repo, t}, nil
}

// Self implements Host.
func (p *GitHubPull) Self(ctx context.Context) (string, error) {
	user, _, err := p.client.Users.Get(ctx, "")
	if err = githubExplain(err); errors.Is(err, ErrForbidden) && p.target.Author != "" {
		return p.target.Author, nil
	}
	return user.GetLogin(), err
}

// Comments implements Host.
func (p *GitHubPull) Comments(ctx context.Context) ([]Comment, error) {
	var out []Comment
	opts := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, resp, err := p.client.Issues.ListComments(ctx, p.owner, p.repo, p.target.Number, opts)
		if err != nil {
			return nil, githubExplain(err)
		}
		for _, c := range page {
			out = append(out, Comment{ID: c.GetID(), Author: c.GetUser().GetLogin(), Body: c.GetBody()})
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// Create implements Host.
func (p *GitHubPull) Create(ctx context.Context, body string) error {
	_, _, err := p.client.Issues.CreateComment(ctx, p.owner, p.repo, p.target.Number,
		github.IssueCommentRequest{Body: body})
	return githubExplainWrite(err)
}

// Edit implements Host.
func (p *GitHubPull) Edit(ctx context.Context, id int64, body string) error {
	_, _, err := p.client.Issues.UpdateComment(ctx, p.owner, p.repo, id, github.IssueCommentRequest{Body: body})
	return githubExplainWrite(err)
}

// Status implements Host.
func (p *GitHubPull) Status(ctx context.Context, s Status) error {
	state := string(s.State)
	if s.State == Canceled {
		state = canceled
	}
	status := github.RepoStatus{State: &state, Context: &s.Context, Description: &s.Description}
	if s.URL != "" {
		status.TargetURL = &s.URL
	}
	_, _, err := p.client.Repositories.CreateStatus(ctx, p.owner, p.repo, p.target.Head, status)
	return githubExplainWrite(err)
}

// Statuses implements Commit.
func (p *GitHubPull) Statuses(ctx context.Context) ([]PostedStatus, error) {
	var out []PostedStatus
	opts := &github.ListOptions{PerPage: 100}
	for {
		page, resp, err := p.client.Repositories.GetCombinedStatus(ctx, p.owner, p.repo, p.target.Head, opts)
		if err != nil {
			return nil, githubExplain(err)
		}
		for _, s := range page.Statuses {
			state := State(s.GetState())
			if state == canceled {
				state = Canceled
			}
			out = append(out, PostedStatus{
				Status: Status{
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

// MergedBy implements Commit.
func (p *GitHubPull) MergedBy(ctx context.Context) (int, error) {
	pulls, _, err := p.client.PullRequests.ListPullRequestsWithCommit(ctx, p.owner, p.repo, p.target.Head,
		&github.ListOptions{PerPage: 100})
	if err != nil {
		return 0, githubExplain(err)
	}
	for _, x := range pulls {
		if x.MergedAt != nil && x.GetMergeCommitSHA() == p.target.Head {
			return x.GetNumber(), nil
		}
	}
	return 0, nil
}

// githubExplain marks errors about permissions as ErrForbidden, which the job of a fork gets.
func githubExplain(err error) error {
	if code := statusOf(err); code == http.StatusForbidden {
		return fmt.Errorf("%w (%w)", ErrForbidden, err)
	}
	return err
}

// githubExplainWrite also marks an error without an answer to a request that changes something.
func githubExplainWrite(err error) error { return fault.HTTPRequest(githubExplain(err), statusOf(err)) }

// statusOf is 0 if there was no answer.
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
