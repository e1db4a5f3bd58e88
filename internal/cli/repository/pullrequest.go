package repository

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"

	"github.com/bunsen-os/bunsen/internal/forge"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/history"
)

// Post is a comment and a status for a pull request.
type Post struct {
	Target forge.Target
	Body   string
	Status forge.Status
}

// Publish posts the comment and the status. For the job of a fork that may not post, it prints the comment. In a dry
// run, it sends nothing.
func (p Post) Publish(ctx context.Context, out, notes io.Writer, dryRun bool) error {
	if dryRun {
		return p.preview(ctx, out, notes)
	}
	host, err := hostOf(p.Target)
	if err != nil {
		return cli.Invalid(err)
	}
	outcome := forge.Outcome("")
	if err = forge.ErrForbidden; p.Target.Token != "" {
		outcome, err = forge.Publish(ctx, host, p.Body, p.Status)
	}
	switch {
	case errors.Is(err, forge.ErrForbidden) && p.Target.Fork:
		return printToLog(out, "The job of a fork may not comment; this is what it would say:\n\n"+p.Body)
	case err != nil:
		return cli.Unreachable(fmt.Errorf("posting to the pull request: %w", err))
	}
	fmt.Fprintf(out, "comment %s, status %s: %s\n", outcome, p.Status.Context, p.Status.State)
	return nil
}

// preview prints the comment, and writes to notes where it and the status would appear. It posts nothing, but with a
// token it reads the comments of the pull request.
func (p Post) preview(ctx context.Context, out, notes io.Writer) error {
	t, s := p.Target, p.Status
	action, err := previewAction(ctx, t, p.Body)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("pull request %d of %s on %s (%s)", t.Number, t.Project, t.Kind, t.API)
	if t.Kind == forge.GitLab {
		where = "merge" + where[len("pull"):]
	}
	fmt.Fprintln(notes, "dry run: bunsen sends nothing")
	fmt.Fprintln(notes, safetext.Line("comment: would "+action+" "+where))
	fmt.Fprintln(notes, safetext.Line(fmt.Sprintf("status: would set %s of commit %s to %s: %s", s.Context, t.Head,
		s.State, s.Description)))
	return printToLog(out, p.Body)
}

// previewAction says what Publish would do with the comment.
func previewAction(ctx context.Context, t forge.Target, body string) (string, error) {
	host, err := hostOf(t)
	if err != nil {
		return "", cli.Invalid(err)
	}
	if t.Token == "" && t.Fork {
		return "be printed, because the job of a fork has no token, and not be posted to", nil
	}
	if t.Token == "" {
		return "be created, or replace an earlier one of the same author and first line (no token, so the comments " +
			"are not read), on", nil
	}
	outcome, err := forge.Preview(ctx, host, body)
	switch {
	case errors.Is(err, forge.ErrForbidden) && t.Fork:
		return "be printed, because the token of a fork's job may not read comments, and not be posted to", nil
	case err != nil:
		return "", cli.Unreachable(fmt.Errorf("reading the comments of the pull request: %w", err))
	}
	return map[forge.Outcome]string{
		forge.Created: "be created on", forge.Edited: "be edited on", forge.Unchanged: "stay as it is on",
	}[outcome], nil
}

const commentTimeout = 30 * time.Second

// StatusContext begins the name of the commit status; the key of the comment follows.
const StatusContext = "bunsen/plan"

// AddPullRequestFlags adds the flags that name a pull request.
func AddPullRequestFlags(f *pflag.FlagSet, by *forge.Target) {
	f.StringVar((*string)(&by.Kind), "host", "", "the service: github, gitlab or gitea (also for Forgejo)")
	f.StringVar(&by.API, "api", "", "its API, such as https://api.github.com")
	f.StringVar(&by.Project, "project", "", "the repository there, owner/name")
	f.IntVar(&by.Number, "pull", 0, "the number of the pull request")
	f.StringVar(&by.Head, "commit", "", "the pull request's last commit, which gets the status")
	f.StringVar(&by.Author, "author", "", "the login that the token writes as, where it may not ask for that")
}

// PullRequestTarget returns the pull request that the flags name, completed from the environment of the CI job.
func PullRequestTarget(by forge.Target, dryRun bool) (forge.Target, error) {
	var event []byte
	if file := os.Getenv("GITHUB_EVENT_PATH"); file != "" {
		var err error
		if event, err = os.ReadFile(file); err != nil {
			return by, fmt.Errorf("reading the job's event: %w", err)
		}
	}
	env := os.Getenv
	// The flags may name another service than the CI job's: only its token is taken.
	if by.Kind != "" {
		env = func(name string) string {
			return map[forge.Kind]map[string]string{
				forge.GitHub: {"GITHUB_ACTIONS": "true"}, forge.GitLab: {"GITLAB_CI": "true"},
				forge.Gitea: {"GITEA_ACTIONS": "true"},
			}[by.Kind][name] + onlyToken(name)
		}
		event = nil
	}
	t, err := forge.FromEnv(env, event)
	t.Kind, t.API, t.Project = cmp.Or(by.Kind, t.Kind), cmp.Or(by.API, t.API), cmp.Or(by.Project, t.Project)
	t.Number, t.Head, t.Author = cmp.Or(by.Number, t.Number), cmp.Or(by.Head, t.Head), cmp.Or(by.Author, t.Author)
	return t, errors.Join(err, t.Missing(dryRun))
}

// onlyToken returns the value of a variable for tokens, and "" for others.
func onlyToken(name string) string {
	if strings.HasSuffix(name, "_TOKEN") {
		return os.Getenv(name)
	}
	return ""
}

// CheckHead returns an error if a comment about the head would be one about another commit than the pull request's last
// one. A job may have checked out a merge that the service created for it: while somebody pushes, or with conflicts,
// that is a merge of an earlier commit. Head may also be a directory, which no commit describes.
func (c DiffOptions) CheckHead(ctx context.Context, head string, t forge.Target) error {
	if c.At.Directory(head) {
		return nil
	}
	at := git.LocalRevision{Repository: c.At.Repo, Revision: head}
	_, hash, err := at.Resolve(ctx)
	if err != nil {
		return nil // The comparison has the same error, and the comment reports it.
	}
	commits, err := history.Open(ctx, at)
	if err != nil {
		return err
	}
	parents, err := commits.Parents(ctx)
	if err != nil {
		return err
	}
	if hash.String() == t.Head || len(parents) > 1 && slices.Contains(parents, t.Head) {
		return nil
	}
	return fmt.Errorf("%s is commit %s, and neither the pull request's last commit, %s, nor a merge of it: check out "+
		"one of these, so that the comment is about what is merged (a pull request with conflicts has no new merge)",
		head, hash, t.Head)
}

// NameCommits names the commits of a comparison by those of the pull request: what a CI job has checked out may be a
// merge that the service created only for the job.
func NameCommits(c review.Comparison, t forge.Target) review.Comparison {
	if c.BaseCommit != nil {
		c.Base = c.BaseCommit.Hash
	}
	if c.HeadCommit == nil {
		return c
	}
	c.Head = c.HeadCommit.Hash
	if slices.Contains(c.HeadCommit.Parents, t.Head) {
		c.Head = t.Head
	}
	if one := c.BaseCommit != nil && slices.Equal(c.HeadCommit.Parents, []string{c.BaseCommit.Hash}); !one &&
		c.Undo != "" {
		c.Undo = "a revert of the commit that merging makes (with -m 1 where that is a merge) renders to the same " +
			"names as before"
	}
	return c
}

// PullRequestMessage returns the comment and the status. An error in the head is also that of the verb; one in the base
// is not, because the change may fix it.
func PullRequestMessage(found review.Comparison, err error, key string) (body string, s forge.Status, failed error) {
	o := report.MarkdownOptions{Key: key}
	s = forge.Status{Context: StatusContext, State: forge.Failure}
	if key != "" {
		s.Context += "/" + key
	}
	var sides *RenderErrors
	isSides := errors.As(err, &sides)
	switch {
	case err == nil && found.Refused() != nil:
		s.Description = "nothing before this change allows some contents that no reviewer can read"
		return report.Markdown(found, o), s, cli.Invalid(found.Refused())
	case err == nil:
		s.State, s.Description = forge.Success, report.Summary(found)
		return report.Markdown(found, o), s, nil
	case isSides && errors.Is(sides.Head, ErrNotValid):
		s.Description = "the change cannot be rendered; the comment says why"
		return report.Trouble(report.HeadFails, sides.Head.Error(), o), s, err
	case isSides && sides.Head == nil && errors.Is(sides.Base, ErrNotValid):
		s.State, s.Description = forge.Success, "it can be rendered; what it is merged to cannot, so nothing is "+
			"compared"
		return report.Trouble(report.BaseFails, sides.Base.Error(), o), s, nil
	default:
		s.Description = "there is no plan; the comment says why"
		return report.Trouble(report.AllFails, err.Error(), o), s, err
	}
}

// printToLog prints texts of a repository to the log of a job, where lines that begin with :: are commands to the
// runner.
func printToLog(w io.Writer, text string) error {
	if os.Getenv("GITHUB_ACTIONS") != "" {
		mark := rand.Text()
		text = "::stop-commands::" + mark + "\n" + text + "\n::" + mark + "::\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("printing the comment: %w", err)
	}
	return nil
}

// checkRedirect refuses a redirect to another server, which would get GitLab's token header.
func checkRedirect(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Host != from.Host || to.URL.Scheme != from.Scheme {
		return fmt.Errorf(
			"%s points to another server, %s://%s, which does not get the token: name that one with --api", from.Host,
			to.URL.Scheme, to.URL.Host)
	}
	if len(via) >= 10 {
		return errors.New("it points from one address to the next without end")
	}
	return nil
}

func hostOf(t forge.Target) (forge.Host, error) {
	client := &http.Client{Timeout: commentTimeout, CheckRedirect: checkRedirect}
	switch t.Kind {
	case forge.GitHub:
		return forge.NewGitHub(t, client)
	case forge.GitLab:
		return forge.NewGitLab(t, client)
	default:
		return forge.NewGitea(t, client)
	}
}
