package rollback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/source"
)

// commit pushes the branch too if the user wants that.
func (j *job) commit(ctx context.Context) error {
	token, err := j.tokenFromFile()
	if err != nil {
		return cli.Invalid(err)
	}
	g := &j.result.Git
	message := j.choice.Message(j.result.Commits, j.sorted.Other, j.result.Cluster)
	if g.Commit, err = j.clone.commitTree(ctx, g.Branch, j.tree, j.base.commit, message); err != nil {
		return cli.Invalid(err)
	}
	if !j.clone.isTemporary {
		g.Directory = j.clone.dir
	}
	site := j.site()
	page := site.NewPull(g.Base, g.Branch)
	if !j.Push {
		j.todo(page)
		return nil
	}
	if err := j.clone.push(ctx, g.Branch); err != nil {
		if !j.clone.isTemporary {
			err = fmt.Errorf("%w\nThe commit is on branch %s of %s: run the command again, or push it yourself", err,
				g.Branch, g.Directory)
		}
		return cli.Unreachable(err)
	}
	g.Pushed = true
	if site.Target.Token = j.token(site, token); site.Target.Token != "" {
		title, body, _ := strings.Cut(message, "\n\n")
		if g.PullRequest, err = repository.OpenForge(ctx, site.Target, forge.Proposal{
			Branch: g.Branch, Base: g.Base,
			Title: title, Body: body,
		}); err != nil {
			j.note("bunsen pushed the branch and could not open a pull request: %v", err)
		}
	}
	switch merge := "merge " + g.Branch + " into " + g.Base; {
	case g.PullRequest != "":
		j.result.Todo = append(j.result.Todo, "merge "+g.PullRequest)
	case page != "":
		j.result.Todo = append(j.result.Todo, "open the pull request: "+page)
	default:
		j.result.Todo = append(j.result.Todo, merge)
	}
	return nil
}

func (j *job) todo(page string) {
	g, add := j.result.Git, func(format string, args ...any) {
		j.result.Todo = append(j.result.Todo, fmt.Sprintf(format, args...))
	}
	if j.clone.remote == "" {
		add("git -C %s merge %s   # on branch %s", Word(g.Directory), g.Branch, g.Base)
		return
	}
	add("git -C %s push %s %s", Word(g.Directory), Word(j.clone.remote), g.Branch)
	if page != "" {
		add("open the pull request: %s", page)
	} else {
		add("merge %s into %s", g.Branch, g.Base)
	}
}

// kinds maps the types of webhooks to the git hosts.
var kinds = map[v1alpha1.WebhookType]forge.Kind{
	v1alpha1.WebhookGitHub: forge.GitHub,
	v1alpha1.WebhookGitLab: forge.GitLab, v1alpha1.WebhookGitea: forge.Gitea,
}

// site returns the service of the clone's remote. Flags override the GitSource's webhook, which overrides the host's
// name.
func (j *job) site() forge.Site {
	a, err := source.ParseURL(j.clone.address)
	if err != nil || a.Transport == source.Local || a.Transport == source.OCI {
		return forge.Site{Target: j.Site}
	}
	host := a.Host
	if a.Port != "" && a.Transport == source.HTTP { // The port of ssh is not the port of the web server.
		host = net.JoinHostPort(a.Host, a.Port)
	}
	kind := j.Site.Kind
	if hook := j.choice.Source.Spec.Webhook; kind == "" && hook != nil {
		kind = kinds[hook.Type]
	}
	s := forge.SiteOf(kind, a.Scheme, host, ProjectPath(a))
	s.Target.API, s.Target.Project = cmp.Or(j.Site.API, s.Target.API), cmp.Or(j.Site.Project, s.Target.Project)
	return s
}

// token returns the token of --token-from, or that of the environment. A GitSource must not decide which host gets it:
// it goes only to the service of the user's own clone, to a public service, or to one that the user names with --api,
// and never unencrypted.
func (j *job) token(s forge.Site, fromFile string) string {
	public := s.Target.API == "https://api.github.com" || s.Target.API == "https://gitlab.com/api/v4" ||
		s.Target.API == "https://codeberg.org/api/v1"
	token := cmp.Or(fromFile, forge.UserToken(s.Target, os.Getenv))
	switch {
	case token == "" || j.Site.API != "" || public:
		return token
	case s.Target.API == "":
		j.note("bunsen does not know the service of the repository: name it with --host and --api to open a pull " +
			"request")
		return ""
	case j.clone.isTemporary:
		j.note("bunsen sends your token only to a service that you name: add --api %s to open a pull request",
			s.Target.API)
		return ""
	case !strings.HasPrefix(s.Target.API, "https://"):
		j.note("bunsen sends your token over https only: to send it unencrypted, add --api %s", s.Target.API)
		return ""
	}
	return token
}

// maxToken is in bytes.
const maxToken = 16 << 10

// tokenFromFile reads the file of --token-from; - is standard input.
func (o Options) tokenFromFile() (string, error) {
	if o.TokenFrom == "" {
		return "", nil
	}
	in := os.Stdin
	if o.TokenFrom != "-" {
		file, err := os.Open(o.TokenFrom)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", errors.New("reading the token: --token-from needs a file with one token and nothing else")
	}
	return token, nil
}

// Check rejects flags that contradict each other before a command reads the cluster.
func (o Options) Check() error {
	switch {
	case o.TokenFrom != "" && !o.Push:
		return errors.New("--token-from is for the pull request: add --push")
	case o.Push && o.DryRun:
		return errors.New("--dry-run pushes nothing: leave out --push")
	case o.Site.Kind != "" && o.Site.Kind != forge.GitHub && o.Site.Kind != forge.GitLab && o.Site.Kind != forge.Gitea:
		return fmt.Errorf("--host %q: want github, gitlab or gitea (also for Forgejo)", o.Site.Kind)
	}
	return nil
}

// SameRepository reports whether two addresses name the same repository, whatever the transport, the user, and `.git`
// at the end.
func SameRepository(a, b string) bool {
	x, okX := address(a)
	y, okY := address(b)
	if !okX || !okY || (x.Transport == source.Local) != (y.Transport == source.Local) {
		return false
	}
	if x.Transport == source.Local {
		return strings.TrimSuffix(x.Path, "/.git") == strings.TrimSuffix(y.Path, "/.git")
	}
	samePort := x.Transport != y.Transport || x.Port == y.Port
	return samePort && strings.EqualFold(x.Host, y.Host) && strings.EqualFold(ProjectPath(x), ProjectPath(y))
}

// address reads an address as git does: the form `host:path` needs no user.
func address(raw string) (source.Address, bool) {
	a, err := source.ParseURL(raw)
	if err != nil && !strings.Contains(raw, "@") {
		a, err = source.ParseURL("git@" + raw)
	}
	return a, err == nil
}

// ProjectPath returns the path of a repository on its host, without slashes at the ends and without `.git`.
func ProjectPath(a source.Address) string {
	p := a.Path
	if plain, err := url.PathUnescape(p); err == nil && a.Transport == source.HTTP {
		p = plain
	}
	return strings.TrimSuffix(strings.Trim(p, "/"), ".git")
}
