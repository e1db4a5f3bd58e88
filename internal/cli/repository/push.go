package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source/git"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/oci"
	docker "oras.land/oras-go/v2/registry/remote/credentials"
)

// The environment variables with credentials for the registry.
const (
	usernameVariable = "BUNSEN_REGISTRY_USERNAME"
	passwordVariable = "BUNSEN_REGISTRY_PASSWORD"
	keyVariable      = "COSIGN_PASSWORD"
)

// Push is one run of the verb push.
type Push struct {
	// Repo is a directory in a repository, and Path the folder below it to push. An empty Revision is HEAD, if the work
	// tree is clean.
	Repo, Revision, Path string
	// Source is the URL in the artifact's annotations; empty: that of the remote origin.
	Source string
	// Key is the file of a private key, or env://NAME; empty: no signature. CAFile has the registry's authority.
	Key, CAFile string
	// DryRun sends no request. AllowPartial leaves out entries that no tree can have, which are errors otherwise.
	DryRun, AllowPartial bool
}

// PushResult describes a pushed artifact.
type PushResult struct {
	// URL is oci://host/name, Tag the tag that was moved, and Digest that of the manifest.
	URL    string `json:"url"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"`
	// Revision is the commit in git.
	Revision string `json:"revision"`
	// Files is the number of files, Bytes their packed size.
	Files int `json:"files"`
	Bytes int `json:"bytes"`
	// Key is the fingerprint of the key that signed it; empty: no signature.
	Key string `json:"key,omitempty"`
	// LeftOut lists the entries of the commit that are not in the artifact.
	LeftOut []LeftOut `json:"leftOut,omitempty"`
	Pushed  bool      `json:"pushed"`
}

// LeftOut is an entry that is not in the artifact.
type LeftOut struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Run packs the commit, signs it and pushes it to oci://host/name:tag. Errors have exit code 2 for invalid input or
// refused credentials, 3 if the registry is unreachable.
func (p Push) Run(ctx context.Context, address string) (PushResult, error) {
	to, err := oci.ParseTarget(address)
	if err != nil {
		return PushResult{}, cli.Invalid(err)
	}
	key, err := p.readKey()
	if err != nil {
		return PushResult{}, cli.Invalid(err)
	}
	into, done, err := tempDir()
	if err != nil {
		return PushResult{}, err
	}
	defer done()
	tree, err := p.commit(ctx, into)
	if err != nil {
		return PushResult{}, cli.Invalid(err)
	}
	artifact, err := oci.Pack(tree.FS, tree.Commit)
	if err != nil {
		return PushResult{}, cli.Invalid(fmt.Errorf("pushing %s: %w", tree.Commit.Revision().Short(), err))
	}
	result := PushResult{
		URL: to.URL, Tag: to.Tag, Digest: artifact.Digest(), Revision: tree.Commit.Revision().String(),
		Files: artifact.Files, Bytes: artifact.Size(), LeftOut: leftOut(tree.Refused),
	}
	if key != nil {
		result.Key = key.Fingerprint()
	}
	if p.DryRun {
		return result, nil
	}
	if err := p.send(ctx, to, artifact, key); err != nil {
		return PushResult{}, err
	}
	result.Pushed = true
	return result, nil
}

func leftOut(refused []source.Refusal) (out []LeftOut) {
	for _, r := range refused {
		out = append(out, LeftOut{Path: r.Path, Why: r.Why})
	}
	return out
}

// send takes the credentials from the environment or docker's configuration.
func (p Push) send(ctx context.Context, to oci.Target, a oci.Artifact, key *oci.PrivateKey) error {
	login, err := credentials()
	if err != nil {
		return cli.Invalid(err)
	}
	transport, err := p.transport()
	if err != nil {
		return cli.Invalid(err)
	}
	defer transport.CloseIdleConnections()
	err = oci.NewPublisher(to, login, transport).Push(ctx, a, key)
	switch {
	case err == nil:
		return nil
	case fault.Of(err, "").Kind == fault.Stalled:
		return cli.Invalid(err)
	}
	return cli.Unreachable(err)
}

// transport trusts the authority of CAFile besides those of the system.
func (p Push) transport() (*access.Transport, error) {
	if p.CAFile == "" {
		return access.NewConnect(source.Address{}, nil, nil)
	}
	raw, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the registry: %w", err)
	}
	transport, err := access.NewConnect(source.Address{}, map[string][]byte{"ca.crt": raw}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate in PEM: name a file with the authority of the registry",
			p.CAFile)
	}
	return transport, nil
}

func (p Push) readKey() (*oci.PrivateKey, error) {
	if p.Key == "" {
		return nil, nil //nolint:nilnil // no key is no error
	}
	var raw []byte
	var err error
	if name, ok := strings.CutPrefix(p.Key, "env://"); ok {
		if raw = []byte(os.Getenv(name)); len(raw) == 0 {
			err = fmt.Errorf("the variable %s is not set", name)
		}
	} else {
		raw, err = os.ReadFile(p.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of --sign: %w", err)
	}
	password, isSet := os.LookupEnv(keyVariable)
	if oci.IsEncrypted(raw) && !isSet {
		return nil, fmt.Errorf("reading the key of --sign: %s is encrypted: set %s to its password", p.Key, keyVariable)
	}
	key, err := oci.ParsePrivateKey(raw, []byte(password))
	if err != nil {
		return nil, fmt.Errorf("reading the key of --sign %s: %w", p.Key, err)
	}
	return &key, nil
}

// credentials returns those of the environment, or else those that docker login wrote.
func credentials() (auth.CredentialFunc, error) {
	user, password := os.Getenv(usernameVariable), os.Getenv(passwordVariable)
	if (user == "") != (password == "") {
		return nil, fmt.Errorf("set both %s and %s, or neither", usernameVariable, passwordVariable)
	}
	if user != "" {
		return func(context.Context, string) (auth.Credential, error) {
			return auth.Credential{Username: user, Password: password}, nil
		}, nil
	}
	store, err := docker.NewStoreFromDocker(docker.StoreOptions{})
	if err != nil {
		return nil, errors.New("reading the credentials of docker: its config.json is damaged: log in again with " +
			"docker login")
	}
	return docker.Credential(store), nil
}

const maxListed = 20

// commit needs an existing, empty directory.
func (p Push) commit(ctx context.Context, into string) (source.Tree, error) {
	at := git.LocalRevision{
		Repository: p.Repo, Revision: p.Revision,
		Path: Repository{Repo: p.Repo, Path: p.Path}.Folder(),
	}
	repo, hash, err := at.Resolve(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	if p.Revision == "" {
		folder, err := source.CleanPath(at.Path)
		if err != nil {
			return source.Tree{}, err
		}
		if err := checkClean(repo, folder); err != nil {
			return source.Tree{}, err
		}
	}
	tree, err := git.OpenRevision(ctx, at, into)
	if err != nil {
		return tree, err
	}
	if tree.Commit.Hash != hash.String() {
		return tree, errors.New("another process moved the revision: push again")
	}
	tree.Commit.Ref = "" // The artifact's digest must not depend on the branch that is checked out.
	tree.Commit.URL = originOf(repo)
	if p.Source != "" {
		tree.Commit.URL = source.Redact(p.Source)
	}
	return tree, p.checkRefused(tree.Refused)
}

// checkRefused lists the entries that no tree can have.
func (p Push) checkRefused(refused []source.Refusal) error {
	if len(refused) == 0 || p.AllowPartial {
		return nil
	}
	var lines []string
	for _, r := range refused {
		lines = append(lines, r.Path+": "+r.Why)
	}
	return fmt.Errorf("the commit has entries that no source applies: remove them, name a folder without them with "+
		"--path, or set --allow-partial to leave them out\n%s", list(lines))
}

// checkClean lists the files below the path that differ from HEAD. A bare repository has no work tree, so there are
// none.
func checkClean(repo *gogit.Repository, path string) error {
	work, err := repo.Worktree()
	if errors.Is(err, gogit.ErrIsBareRepository) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the work tree: %w", err)
	}
	status, err := work.Status()
	if err != nil {
		return fmt.Errorf("comparing the work tree with HEAD: %w", err)
	}
	var changed []string
	for name, s := range status {
		if (s.Worktree != gogit.Unmodified || s.Staging != gogit.Unmodified) &&
			(path == "" || name == path || strings.HasPrefix(name, path+"/")) {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	return fmt.Errorf("the work tree has changes that are not in the commit: commit them, or push the commit without "+
		"them with --rev HEAD\n%s", list(changed))
}

// originOf returns the URL of the remote named origin, without credentials; "" if there is none.
func originOf(repo *gogit.Repository) string {
	origin, err := repo.Remote("origin")
	if err != nil || len(origin.Config().URLs) == 0 {
		return ""
	}
	return source.Redact(origin.Config().URLs[0])
}

// list returns the first lines, indented, and the number of the others.
func list(lines []string) string {
	text := "  " + strings.Join(lines[:min(len(lines), maxListed)], "\n  ")
	if more := len(lines) - maxListed; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

// CompleteRevisions offers the branches and tags of the repository in the current directory.
func CompleteRevisions(ctx context.Context, repo string) []string {
	opened, _, err := (git.LocalRevision{Repository: repo}).Resolve(ctx)
	if err != nil {
		return nil
	}
	refs, err := opened.References()
	if err != nil {
		return nil
	}
	var out []string
	// Completion offers the refs that could be read.
	_ = refs.ForEach(func(r *plumbing.Reference) error {
		if r.Name().IsBranch() || r.Name().IsTag() {
			out = append(out, r.Name().Short())
		}
		return nil
	})
	slices.Sort(out)
	return out
}
