package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/bunsen-os/bunsen/api/fault"
)

// states are those of a pipeline.
var states = map[State]gitlab.BuildStateValue{
	Success: gitlab.Success, Failure: gitlab.Failed, Pending: gitlab.Running,
	Canceled: gitlab.Canceled,
}

// GitLabMerge is a merge request.
type GitLabMerge struct {
	client *gitlab.Client
	target Target
}

var (
	_ Host   = (*GitLabMerge)(nil)
	_ Commit = (*GitLabMerge)(nil)
)

// NewGitLab returns the merge request. The client limits the time of each request.
func NewGitLab(t Target, client *http.Client) (*GitLabMerge, error) {
	c, err := gitlab.NewClient(t.Token, gitlab.WithBaseURL(t.API), gitlab.WithHTTPClient(client),
		gitlab.WithoutRetries())
	if err != nil {
		return nil, fmt.Errorf("creating the GitLab client: %w", err)
	}
	return &GitLabMerge{c, t}, nil
}

// Self implements Host.
func (m *GitLabMerge) Self(ctx context.Context) (string, error) {
	user, _, err := m.client.Users.CurrentUser(gitlab.WithContext(ctx))
	if err != nil {
		return "", gitlabExplain(err)
	}
	return user.Username, nil
}

// Comments implements Host.
func (m *GitLabMerge) Comments(ctx context.Context) ([]Comment, error) {
	var out []Comment
	opts := &gitlab.ListMergeRequestNotesOptions{
		ListOptions: gitlab.ListOptions{PerPage: 100}, OrderBy: gitlab.Ptr("created_at"), Sort: gitlab.Ptr("asc"),
	}
	for {
		page, resp, err := m.client.Notes.ListMergeRequestNotes(m.target.Project, int64(m.target.Number), opts,
			gitlab.WithContext(ctx))
		if err != nil {
			return nil, gitlabExplain(err)
		}
		for _, n := range page {
			if !n.System {
				out = append(out, Comment{ID: n.ID, Author: n.Author.Username, Body: n.Body})
			}
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// Create implements Host.
func (m *GitLabMerge) Create(ctx context.Context, body string) error {
	_, _, err := m.client.Notes.CreateMergeRequestNote(m.target.Project, int64(m.target.Number),
		&gitlab.CreateMergeRequestNoteOptions{Body: &body}, gitlab.WithContext(ctx))
	return gitlabExplainWrite(err)
}

// Edit implements Host.
func (m *GitLabMerge) Edit(ctx context.Context, id int64, body string) error {
	_, _, err := m.client.Notes.UpdateMergeRequestNote(m.target.Project, int64(m.target.Number), id,
		&gitlab.UpdateMergeRequestNoteOptions{Body: &body}, gitlab.WithContext(ctx))
	return gitlabExplainWrite(err)
}

// Status implements Host.
func (m *GitLabMerge) Status(ctx context.Context, s Status) error {
	opts := &gitlab.SetCommitStatusOptions{State: states[s.State], Context: &s.Context, Description: &s.Description}
	if s.URL != "" {
		opts.TargetURL = &s.URL
	}
	_, _, err := m.client.Commits.SetCommitStatus(m.target.Project, m.target.Head, opts, gitlab.WithContext(ctx))
	var answer *gitlab.ErrorResponse
	if errors.As(err, &answer) && answer.HasStatusCode(http.StatusBadRequest) && m.hasState(ctx, s) {
		return nil // GitLab refuses a status whose state the commit already has, and keeps the earlier description.
	}
	return gitlabExplainWrite(err)
}

func (m *GitLabMerge) hasState(ctx context.Context, s Status) bool {
	all, err := m.Statuses(ctx)
	return err == nil && slices.ContainsFunc(all, func(p PostedStatus) bool {
		return p.Context == s.Context && p.State == s.State
	})
}

// Statuses implements Commit.
func (m *GitLabMerge) Statuses(ctx context.Context) ([]PostedStatus, error) {
	var out []PostedStatus
	opts := &gitlab.GetCommitStatusesOptions{ListOptions: gitlab.ListOptions{PerPage: 100}}
	for {
		page, resp, err := m.client.Commits.GetCommitStatuses(m.target.Project, m.target.Head, opts,
			gitlab.WithContext(ctx))
		if err != nil {
			return nil, gitlabExplain(err)
		}
		for _, s := range page {
			p := PostedStatus{Status: Status{
				Context: s.Name, State: State(s.Status),
				Description: s.Description, URL: s.TargetURL,
			}}
			for state, theirs := range states {
				if s.Status == string(theirs) {
					p.State = state
				}
			}
			for _, at := range []*time.Time{s.CreatedAt, s.StartedAt, s.FinishedAt} {
				if at != nil && at.After(p.Time) {
					p.Time = *at
				}
			}
			out = append(out, p)
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// MergedBy implements Commit.
func (m *GitLabMerge) MergedBy(ctx context.Context) (int, error) {
	all, _, err := m.client.Commits.ListMergeRequestsByCommit(m.target.Project, m.target.Head, gitlab.WithContext(ctx))
	if err != nil {
		return 0, gitlabExplain(err)
	}
	for _, x := range all {
		if x.State == "merged" && slices.Contains([]string{x.MergeCommitSHA, x.SquashCommitSHA, x.SHA}, m.target.Head) {
			return int(x.IID), nil
		}
	}
	return 0, nil
}

// gitlabExplain marks errors about permissions as ErrForbidden, which the job of a fork gets.
func gitlabExplain(err error) error {
	if code := gitlabStatusOf(err); code == http.StatusForbidden || code == http.StatusUnauthorized {
		return fmt.Errorf("%w (%w)", ErrForbidden, err)
	}
	return err
}

// gitlabExplainWrite also marks an error without an answer to a request that changes something.
func gitlabExplainWrite(err error) error {
	return fault.HTTPRequest(gitlabExplain(err), gitlabStatusOf(err))
}

// gitlabStatusOf is 0 if there was no answer.
func gitlabStatusOf(err error) int {
	var answer *gitlab.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}
