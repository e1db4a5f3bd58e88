package fromgit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

// timeout limits one listing of refs or one fetch.
const timeout = time.Minute

// Remote is a repository whose trees are stored on disk. source/repository.Repository implements it.
type Remote interface {
	// List returns all refs of the repository.
	List(ctx context.Context, poll source.Poll) (source.Listing, error)
	// Tree returns the files of a commit, from the disk if it has them.
	Tree(ctx context.Context, picked source.Picked) (source.Tree, error)
}

// Access has the parameters of a Remote.
type Access struct {
	// URL is as in Config, but the path of a folder is absolute.
	URL string
	// Path is as in Config.
	Path string
	// Secret has the credentials, by the keys of a GitSource's Secret; nil is none.
	Secret map[string][]byte
	// Trust is a digest of the keys that Verify accepts; empty if no signature is required.
	Trust string
	// Verify checks the signature of a commit and returns its signer; nil if no signature is required.
	Verify func(source.Evidence) (signer string, err error)
}

// Open creates a Remote. Open opens no connection.
type Open func(Access) (Remote, error)

// Config names a repository and the files and options to follow it.
type Config struct {
	// URL is as in a GitSource: https://, ssh://, user@host:path, or an absolute path; a folder of this machine may be
	// relative. URL contains no password.
	URL string
	// Ref is the ref to follow, as ParseRef reads it; empty is the remote's default branch.
	Ref string
	// Path is the folder in the repository that holds pools/; empty is its root.
	Path string
	// Pools are the pools to render; empty is all pools of the repository. A pool that the repository does not have is
	// an error of the commit.
	Pools []string
	// Open creates the Remote.
	Open Open
	// Last is a file that stores the last good commit. One process at a time uses it.
	Last string
	// Credentials is a folder with the keys of a GitSource's Secret as files: username and password or bearerToken, and
	// ca.crt, for https; identity, known_hosts and, for an encrypted identity, password for ssh. An empty Credentials
	// means no credentials. Each poll reads the folder again.
	Credentials string
	// Keys is a file, or a folder of files, with the allowed keys for commits, as in the Secret of a GitSource's
	// verify; empty requires no signature.
	Keys string
	// Defaults are the images of pools that set none: the controller's --os-image and --extensions-image.
	Defaults Images
	// Version is the version of Bunsen. Rendered configs record the version.
	Version string
	// Log receives the applied commits and the errors.
	Log *slog.Logger
}

// Images are a cluster's defaults.
type Images struct {
	// OS is the default OS image, or "".
	OS string
	// Extensions is the default image of extensions, or "".
	Extensions string
}

// Repository follows one repository. Repository is not safe for concurrent use; create it with New.
type Repository struct {
	config     Config
	url        string // url is the address of the repository without credentials.
	ref        Ref
	renderings review.Renderings
	// applied has the configs of the last applied commit; nil before the first one.
	applied atomic.Pointer[Rendering]
	// before has the configs of the commit before; nil without one.
	before atomic.Pointer[Rendering]

	now func() time.Time
}

// New checks the configuration. New does not contact the remote.
func New(c Config) (*Repository, error) {
	ref, err := ParseRef(c.Ref)
	if err != nil {
		return nil, err
	}
	if c.URL, err = absoluteURL(c.URL); err != nil {
		return nil, err
	}
	a, err := source.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if a.Password != "" {
		return nil, errors.New("the URL of the repository contains a password, and every user who lists processes " +
			"can see it. Write the password into a file named password, and pass its folder with --git-credentials")
	}
	if _, err := source.CleanPath(c.Path); err != nil {
		return nil, err
	}
	r := &Repository{config: c, url: a.String(), ref: ref, now: time.Now}
	r.renderings.Defaults = render.Defaults{OSImageURL: c.Defaults.OS, ExtensionsImage: c.Defaults.Extensions}
	r.renderings.AllowLargeFiles(true)
	if _, _, err := r.connect(); err != nil {
		return nil, err
	}
	return r, nil
}

// absoluteURL returns a folder's path as an absolute path, and every other address unchanged.
func absoluteURL(url string) (string, error) {
	if strings.Contains(url, "://") || filepath.IsAbs(url) {
		return url, nil
	}
	if info, err := os.Stat(url); err != nil || !info.IsDir() {
		return url, nil // The address is user@host:path, or ParseURL returns the error.
	}
	abs, err := filepath.Abs(url)
	if err != nil {
		return "", fmt.Errorf("finding the repository %s: %w", url, err)
	}
	return abs, nil
}

// connect creates the remote with the current credentials and keys. The result trust is the digest of the keys.
func (r *Repository) connect() (remote Remote, trust string, err error) {
	a := Access{URL: r.config.URL, Path: r.config.Path}
	if a.Secret, err = credentials(r.config.Credentials); err != nil {
		return nil, "", err
	}
	if r.config.Keys != "" {
		data, err := keyFiles(r.config.Keys)
		if err != nil {
			return nil, "", fmt.Errorf("reading the allowed keys of commits: %w", err)
		}
		keys, err := verify.ParseKeys(data)
		if err != nil {
			return nil, "", fmt.Errorf("reading the allowed keys of commits from %s: %w", r.config.Keys, err)
		}
		a.Trust = keys.Digest()
		a.Verify = func(e source.Evidence) (string, error) { return verify.Commit(e.Commit, keys, r.now()) }
	}
	if remote, err = r.config.Open(a); err != nil {
		return nil, "", r.withCredentials(err)
	}
	return remote, a.Trust, nil
}

// credentials reads a folder of credentials, such as a mounted Secret or systemd's $CREDENTIALS_DIRECTORY. credentials
// returns nil if dir is empty.
func credentials(dir string) (map[string][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	found, err := keyFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of credentials: %w", err)
	}
	out := map[string][]byte{}
	for name, data := range found {
		isWord, ok := secretKeys[name]
		if !ok {
			continue
		}
		if isWord {
			data = bytes.TrimRight(data, "\r\n")
		}
		out[name] = data
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the folder of credentials %s has none of the files username, password, bearerToken, "+
			"ca.crt (https), identity, known_hosts (ssh)", dir)
	}
	return out, nil
}

// withCredentials adds the folder that contains the keys to errors about a Secret.
func (r *Repository) withCredentials(err error) error {
	f := fault.Of(err, "")
	if f.Reason != v1alpha1.ReasonAuthentication {
		return err
	}
	where := "the flag --git-credentials is not set"
	if r.config.Credentials != "" {
		where = "the Secret's keys are the files of " + r.config.Credentials
	}
	return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: fmt.Errorf("%w; here %s", err, where)}
}

// pick lists the remote's refs and picks the commit to follow.
func (r *Repository) pick(ctx context.Context, from Remote) (source.Picked, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	listed, err := from.List(ctx, source.Poll{Now: r.now()})
	if err != nil {
		return source.Picked{}, r.withCredentials(err)
	}
	return r.ref.pick(listed.Refs)
}

// LargeFile returns the file of the content store with a hash, if the applied commit or the one before names it.
// Machines that got a config of the commit before may still request its files.
func (r *Repository) LargeFile(hash string) (machineconfig.LargeFile, bool) {
	for _, rendering := range []*Rendering{r.applied.Load(), r.before.Load()} {
		if rendering == nil {
			continue
		}
		if f, ok := rendering.largeFile(hash); ok {
			return f, true
		}
	}
	return machineconfig.LargeFile{}, false
}

// NodeConfig returns a rendered config of single nodes of the applied commit, as JSON.
func (r *Repository) NodeConfig(name string) ([]byte, error) {
	applied := r.applied.Load()
	if applied == nil {
		return nil, fmt.Errorf("reading config %s: no commit is applied yet", name)
	}
	p, ok := applied.own[v1alpha1.RenderedPool(name)]
	node, own := p.Rendered.NodeOf(name)
	if !ok || !own {
		return nil, fmt.Errorf("reading config %s: the applied commit %s has no such config", name,
			applied.Commit.Revision)
	}
	rendered, err := p.Rendered.Node(node)
	if err != nil {
		return nil, err
	}
	p.Rendered = rendered
	return json.Marshal(r.object(p, applied.Commit))
}

// secretKeys are the keys of a GitSource's Secret; each key is also the name of a file in the folder of credentials. If
// the value is true, the content is one word, and the reader removes a line break at its end.
var secretKeys = map[string]bool{
	"username": true, "password": true, "bearerToken": true, "ca.crt": false, "identity": false, "known_hosts": false,
	"hosts": false,
}

// keyFiles returns the content of a file, or of the files of a folder, by name.
func keyFiles(path string) (map[string][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") { // Names that begin with .. are internal folders of a mounted Secret.
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	out := map[string][]byte{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[filepath.Base(name)] = data
	}
	return out, nil
}

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Ref is the ref to follow: one text instead of a GitSource's five fields. The zero value is the remote's default
// branch.
type Ref struct {
	want v1alpha1.GitRef
	// name is the name of a branch or a tag.
	name string
}

// ParseRef reads a ref: a branch or a tag by its name, `main` or `v1.4.2`; `semver:~1.4`, the highest tag of a range;
// `refs/…`, a full name; a commit's full hash. Empty is the remote's default branch.
func ParseRef(text string) (Ref, error) {
	versions, isRange := strings.CutPrefix(text, "semver:")
	switch {
	case text == "":
		return Ref{}, nil
	case isRange:
		return Ref{want: v1alpha1.GitRef{SemVer: versions}}, nil
	case strings.HasPrefix(text, "refs/"):
		return Ref{want: v1alpha1.GitRef{Name: text}}, nil
	case fullHash.MatchString(text):
		return Ref{want: v1alpha1.GitRef{Commit: text}}, nil
	case strings.ContainsAny(text, " :~^?*[\\"): // git allows none of these characters in a name.
		return Ref{}, fmt.Errorf("ref %q is not the name of a branch or tag: write main, v1.4.2, semver:~1.4, "+
			"refs/…, or a commit's 40 digits", text)
	}
	return Ref{name: text}, nil
}

// pick finds the commit among a remote's refs. Errors are those of source.Pick.
func (r Ref) pick(refs []source.Ref) (source.Picked, error) {
	if r.name == "" {
		return source.Pick(refs, r.want)
	}
	branch, noBranch := source.Pick(refs, v1alpha1.GitRef{Branch: r.name})
	tag, noTag := source.Pick(refs, v1alpha1.GitRef{Tag: r.name})
	var err error
	switch {
	case noBranch == nil && noTag == nil && branch.Hash != tag.Hash:
		err = fmt.Errorf("%q is a branch and a tag at different commits: write refs/heads/%[1]s or refs/tags/%[1]s",
			r.name)
	case noBranch == nil:
		return branch, nil
	case noTag == nil:
		return tag, nil
	case len(refs) == 0:
		err = errors.New("the repository is empty: push a commit")
	default:
		err = fmt.Errorf("no branch or tag %q; the repository has: %s", r.name, source.RefsText(refs))
	}
	return source.Picked{}, fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
}
