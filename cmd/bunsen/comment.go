package main

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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/forge"
	"github.com/bunsen-os/bunsen/forge/gitea"
	"github.com/bunsen-os/bunsen/forge/github"
	"github.com/bunsen-os/bunsen/forge/gitlab"
	"github.com/bunsen-os/bunsen/review"
)

// commentTimeout bounds one request to a service.
const commentTimeout = 30 * time.Second

// statusContext names the commit status; a key comes after it.
const statusContext = "bunsen/plan"

func commentCommand() *cobra.Command {
	var c comparing
	var by forge.Target
	var key string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "comment [BASE [HEAD]]", Short: "Tell a pull request what it does to machines: one comment, edited in place, and a status", GroupID: "offline",
		Long: `Compare as diff does, and post the outcome to the pull request whose job this is: one comment that is edited in place, and
the commit status ` + statusContext + `. On GitHub Actions, GitLab CI and Gitea or Forgejo Actions everything is known from the job;
elsewhere --host, --api, --project, --pull and --commit say it. The token comes from the environment: BUNSEN_TOKEN, or
GITHUB_TOKEN, GITLAB_TOKEN, GITEA_TOKEN, FORGEJO_TOKEN.

An invalid head gets a comment with its problems, and the status "failure". Where the job of a fork may not write, the
comment is printed instead. With --dry-run nothing is sent: standard output is exactly the comment, and standard error says where it
would go. With a token the command reads the pull request's comments, to say whether it would create or edit one. BASE and HEAD are revisions; a directory is written as a path, such as ./before. docs/ci.md
tells more.

Exit codes: 0 told, 2 invalid input, 3 service out of reach.`,
		Example: `  # In a job of a pull request: HEAD is what merging makes, its first parent what it is merged to
  bunsen comment HEAD^1 HEAD

  # Only show what would be posted; no token is needed
  bunsen comment main HEAD --dry-run --host github --api https://api.github.com \
    --project infra/os-config --pull 7 --commit "$(git rev-parse HEAD)"

  # By hand
  BUNSEN_TOKEN=... bunsen comment main HEAD --host gitlab --api https://gitlab.example.com/api/v4 \
    --project infra/os-config --pull 7 --commit "$(git rev-parse HEAD)"`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := targetOf(by, dryRun)
			if err != nil {
				return invalid(err)
			}
			if len(args) == 0 && target.Base != "" && !c.running {
				args = []string{target.Base, "HEAD"}
			}
			base, head, err := c.sides(cmd.Context(), args)
			if err != nil {
				return invalid(err)
			}
			c.at.revisions = true
			found, err := c.compare(cmd.Context(), base, head)
			body, status, failed := message(ofPull(found, target), err, key)
			status.URL = target.Run
			if err := publisher(dryRun, cmd.ErrOrStderr())(cmd.Context(), cmd.OutOrStdout(), target, body, status); err != nil {
				return err
			}
			return failed
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&key, "key", "", keyHelp)
	f.BoolVar(&dryRun, "dry-run", false, "print the comment and where it would go, and send nothing; needs no token")
	targetFlags(f, &by)
	return cmd
}

// targetFlags are the flags that name a pull request.
func targetFlags(f *pflag.FlagSet, by *forge.Target) {
	f.StringVar((*string)(&by.Kind), "host", "", "the service: github, gitlab or gitea (also for Forgejo)")
	f.StringVar(&by.API, "api", "", "its API, such as https://api.github.com")
	f.StringVar(&by.Project, "project", "", "the repository there, owner/name")
	f.IntVar(&by.Number, "pull", 0, "the number of the pull request")
	f.StringVar(&by.Head, "commit", "", "the pull request's last commit, which gets the status")
	f.StringVar(&by.Author, "author", "", "the login that the token writes as, where it may not ask for that")
}

// targetOf fills in what the flags leave out from the job's environment.
func targetOf(by forge.Target, dryRun bool) (forge.Target, error) {
	var event []byte
	if file := os.Getenv("GITHUB_EVENT_PATH"); file != "" {
		var err error
		if event, err = os.ReadFile(file); err != nil {
			return by, fmt.Errorf("reading the job's event: %w", err)
		}
	}
	env := os.Getenv
	if by.Kind != "" { // a service named by hand is not that of the job, perhaps; its token is all that is read
		env = func(name string) string {
			return map[forge.Kind]map[string]string{
				forge.GitHub: {"GITHUB_ACTIONS": "true"}, forge.GitLab: {"GITLAB_CI": "true"}, forge.Gitea: {"GITEA_ACTIONS": "true"},
			}[by.Kind][name] + onlyToken(name)
		}
		event = nil
	}
	t, err := forge.FromEnv(env, event)
	t.Kind, t.API, t.Project = cmp.Or(by.Kind, t.Kind), cmp.Or(by.API, t.API), cmp.Or(by.Project, t.Project)
	t.Number, t.Head, t.Author = cmp.Or(by.Number, t.Number), cmp.Or(by.Head, t.Head), cmp.Or(by.Author, t.Author)
	return t, errors.Join(err, t.Missing(dryRun))
}

// onlyToken reads a variable that holds a token, and no other.
func onlyToken(name string) string {
	if strings.HasSuffix(name, "_TOKEN") {
		return os.Getenv(name)
	}
	return ""
}

// ofPull names the commits that the pull request knows: a job may see a merge that the service made to try, which nobody
// ever gets, as the head.
func ofPull(c review.Comparison, t forge.Target) review.Comparison {
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
	if one := c.BaseCommit != nil && slices.Equal(c.HeadCommit.Parents, []string{c.BaseCommit.Hash}); !one && c.Undo != "" {
		c.Undo = "a revert of the commit that merging makes (with -m 1 where that is a merge) renders to the same names as before"
	}
	return c
}

// message is the comment and the status. What is wrong with the head is for the comment and for the exit code. A base that
// cannot be rendered is no fault of the change, which may be what mends it.
func message(found review.Comparison, err error, key string) (body string, s forge.Status, failed error) {
	o := review.MarkdownOptions{Key: key}
	s = forge.Status{Context: statusContext, State: forge.Failure}
	if key != "" {
		s.Context += "/" + key
	}
	var sides *unrendered
	isSides := errors.As(err, &sides)
	switch {
	case err == nil:
		s.State, s.Description = forge.Success, found.Summary()
		return found.Markdown(o), s, nil
	case isSides && errors.Is(sides.head, errNotValid):
		s.Description = "the change cannot be rendered; the comment says why"
		return review.Trouble(review.HeadFails, sides.head.Error(), o), s, err
	case isSides && sides.head == nil && errors.Is(sides.base, errNotValid):
		s.State, s.Description = forge.Success, "it can be rendered; what it is merged to cannot, so nothing is compared"
		return review.Trouble(review.BaseFails, sides.base.Error(), o), s, nil
	default:
		s.Description = "there is no plan; the comment says why"
		return review.Trouble(review.AllFails, err.Error(), o), s, err
	}
}

// logged prints what a repository says into the log of a job, where lines that begin with :: are commands to the runner.
func logged(w io.Writer, text string) error {
	if os.Getenv("GITHUB_ACTIONS") != "" {
		mark := rand.Text()
		text = "::stop-commands::" + mark + "\n" + text + "\n::" + mark + "::\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("printing the comment: %w", err)
	}
	return nil
}

// stay keeps a token on the server that it is for: a header of GitLab's own would go along to wherever that one points.
func stay(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Host != from.Host || to.URL.Scheme != from.Scheme {
		return fmt.Errorf("%s points to another server, %s://%s, which does not get the token: name that one with --api", from.Host, to.URL.Scheme, to.URL.Host)
	}
	if len(via) >= 10 {
		return errors.New("it points from one address to the next without end")
	}
	return nil
}

// hostOf returns the client of the target's service.
func hostOf(t forge.Target) (forge.Host, error) {
	client := &http.Client{Timeout: commentTimeout, CheckRedirect: stay}
	switch t.Kind {
	case forge.GitHub:
		return github.New(t, client)
	case forge.GitLab:
		return gitlab.New(t, client)
	default:
		return gitea.New(t, client)
	}
}

// tell posts, or prints where the job of a fork may not post.
func tell(ctx context.Context, w io.Writer, t forge.Target, body string, s forge.Status) error {
	host, err := hostOf(t)
	if err != nil {
		return invalid(err)
	}
	outcome := forge.Outcome("")
	if err = forge.ErrForbidden; t.Token != "" {
		outcome, err = forge.Publish(ctx, host, body, s)
	}
	switch {
	case errors.Is(err, forge.ErrForbidden) && t.Fork:
		return logged(w, "The job of a fork may not comment; this is what it would say:\n\n"+body)
	case err != nil:
		return unreachable(fmt.Errorf("telling the pull request: %w", err))
	}
	fmt.Fprintf(w, "comment %s, status %s: %s\n", outcome, s.Context, s.State)
	return nil
}
