package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/forge"
)

// states are GitLab's states of a pipeline.
var states = map[forge.State]gitlab.BuildStateValue{
	forge.Success: gitlab.Success, forge.Failure: gitlab.Failed, forge.Pending: gitlab.Running,
	forge.Canceled: gitlab.Canceled,
}

// Merge is a merge request.
type Merge struct {
	client *gitlab.Client
	target forge.Target
}

var (
	_ forge.Host   = (*Merge)(nil)
	_ forge.Commit = (*Merge)(nil)
	_ forge.Opener = (*Merge)(nil)
)

// New returns the merge request. The client limits the time of each request.
func New(t forge.Target, client *http.Client) (*Merge, error) {
	c, err := gitlab.NewClient(t.Token, gitlab.WithBaseURL(t.API), gitlab.WithHTTPClient(client),
		gitlab.WithoutRetries())
	if err != nil {
		return nil, fmt.Errorf("creating the GitLab client: %w", err)
	}
	return &Merge{c, t}, nil
}

// Self implements forge.Host.
func (m *Merge) Self(ctx context.Context) (string, error) {
	user, _, err := m.client.Users.CurrentUser(gitlab.WithContext(ctx))
	if err != nil {
		return "", explain(err)
	}
	return user.Username, nil
}

// Comments implements forge.Host.
func (m *Merge) Comments(ctx context.Context) ([]forge.Comment, error) {
	var out []forge.Comment
	opts := &gitlab.ListMergeRequestNotesOptions{
		ListOptions: gitlab.ListOptions{PerPage: 100}, OrderBy: gitlab.Ptr("created_at"), Sort: gitlab.Ptr("asc"),
	}
	for {
		page, resp, err := m.client.Notes.ListMergeRequestNotes(m.target.Project, int64(m.target.Number), opts,
			gitlab.WithContext(ctx))
		if err != nil {
			return nil, explain(err)
		}
		for _, n := range page {
			if !n.System {
				out = append(out, forge.Comment{ID: n.ID, Author: n.Author.Username, Body: n.Body})
			}
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opts.Page = resp.NextPage
	}
}

// Create implements forge.Host.
func (m *Merge) Create(ctx context.Context, body string) error {
	_, _, err := m.client.Notes.CreateMergeRequestNote(m.target.Project, int64(m.target.Number),
		&gitlab.CreateMergeRequestNoteOptions{Body: &body}, gitlab.WithContext(ctx))
	return explainWrite(err)
}

// Edit implements forge.Host.
func (m *Merge) Edit(ctx context.Context, id int64, body string) error {
	_, _, err := m.client.Notes.UpdateMergeRequestNote(m.target.Project, int64(m.target.Number), id,
		&gitlab.UpdateMergeRequestNoteOptions{Body: &body}, gitlab.WithContext(ctx))
	return explainWrite(err)
}

// Status implements forge.Host.
func (m *Merge) Status(ctx context.Context, s forge.Status) error {
	opts := &gitlab.SetCommitStatusOptions{State: states[s.State], Context: &s.Context, Description: &s.Description}
	if s.URL != "" {
		opts.TargetURL = &s.URL
	}
	_, _, err := m.client.Commits.SetCommitStatus(m.target.Project, m.target.Head, opts, gitlab.WithContext(ctx))
	var answer *gitlab.ErrorResponse
	if errors.As(err, &answer) && answer.HasStatusCode(http.StatusBadRequest) && m.hasState(ctx, s) {
		return nil // GitLab refuses a status whose state the commit already has, and keeps the earlier description.
	}
	return explainWrite(err)
}

// hasState reports whether the commit has a status of this context and state.
func (m *Merge) hasState(ctx context.Context, s forge.Status) bool {
	all, err := m.Statuses(ctx)
	return err == nil && slices.ContainsFunc(all, func(p forge.PostedStatus) bool {
		return p.Context == s.Context && p.State == s.State
	})
}

// Statuses implements forge.Commit.
func (m *Merge) Statuses(ctx context.Context) ([]forge.PostedStatus, error) {
	var out []forge.PostedStatus
	opts := &gitlab.GetCommitStatusesOptions{ListOptions: gitlab.ListOptions{PerPage: 100}}
	for {
		page, resp, err := m.client.Commits.GetCommitStatuses(m.target.Project, m.target.Head, opts,
			gitlab.WithContext(ctx))
		if err != nil {
			return nil, explain(err)
		}
		for _, s := range page {
			p := forge.PostedStatus{Status: forge.Status{
				Context: s.Name, State: forge.State(s.Status),
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

// MergedBy implements forge.Commit.
func (m *Merge) MergedBy(ctx context.Context) (int, error) {
	all, _, err := m.client.Commits.ListMergeRequestsByCommit(m.target.Project, m.target.Head, gitlab.WithContext(ctx))
	if err != nil {
		return 0, explain(err)
	}
	for _, x := range all {
		if x.State == "merged" && slices.Contains([]string{x.MergeCommitSHA, x.SquashCommitSHA, x.SHA}, m.target.Head) {
			return int(x.IID), nil
		}
	}
	return 0, nil
}

// Open implements forge.Opener.
func (m *Merge) Open(ctx context.Context, p forge.Proposal) (string, error) {
	merge, _, err := m.client.MergeRequests.CreateMergeRequest(m.target.Project, &gitlab.CreateMergeRequestOptions{
		Title: &p.Title, Description: &p.Body, SourceBranch: &p.Branch, TargetBranch: &p.Base,
		RemoveSourceBranch: gitlab.Ptr(true),
	}, gitlab.WithContext(ctx))
	if err != nil {
		return "", explainWrite(err)
	}
	return merge.WebURL, nil
}

// Opened implements forge.Opener.
func (m *Merge) Opened(ctx context.Context, p forge.Proposal) (string, error) {
	all, _, err := m.client.MergeRequests.ListProjectMergeRequests(m.target.Project,
		&gitlab.ListProjectMergeRequestsOptions{
			State: gitlab.Ptr("opened"), SourceBranch: &p.Branch, TargetBranch: &p.Base,
		}, gitlab.WithContext(ctx))
	if err != nil || len(all) == 0 {
		return "", explain(err)
	}
	return all[0].WebURL, nil
}

// explain adds forge.ErrForbidden to errors about permissions, which the job of a fork gets.
func explain(err error) error {
	if code := statusOf(err); code == http.StatusForbidden || code == http.StatusUnauthorized {
		return fmt.Errorf("%w (%w)", forge.ErrForbidden, err)
	}
	return err
}

// explainWrite is explain for a request that changes something: it marks an error without an answer.
func explainWrite(err error) error { return fault.HTTPRequest(explain(err), statusOf(err)) }

// statusOf returns the status code of the answer that is an error; 0 if there was no answer.
func statusOf(err error) int {
	var answer *gitlab.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}
