package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

// timeout of one listing of refs or one fetch.
const timeout = time.Minute

// Remote is a repository whose trees are kept on disk; source/git and source/store together are one.
type Remote interface {
	// List returns the remote's refs; it costs one ref listing.
	List(ctx context.Context) ([]source.Ref, error)
	// Tree returns the files of a commit; one that was fetched before costs no network.
	Tree(ctx context.Context, picked source.Picked) (source.Tree, error)
}

// Access is what a Remote is opened with.
type Access struct {
	// URL as in Config, with a folder's path made absolute.
	URL string
	// Path as in Config.
	Path string
	// Secret has the credentials, by the keys of a GitSource's Secret; nil is none.
	Secret map[string][]byte
	// Trust is a digest of the keys that Verify believes; empty where no signature is asked for.
	Trust string
	// Verify judges a commit object and names its signer; nil asks for no signature.
	Verify func(object []byte) (signer string, err error)
}

// Open makes a Remote. It touches nothing yet.
type Open func(Access) (Remote, error)

// Config says which repository to follow, and where to keep what was fetched.
type Config struct {
	// URL is as in a GitSource: https://, ssh://, user@host:path, or an absolute path; a folder of this machine may be
	// relative. It holds no password.
	URL string
	// Ref is what to follow, as ParseRef reads it; empty is the remote's default branch.
	Ref string
	// Path is the folder in the repository that holds pools/; empty is its root.
	Path string
	// Pools are those wanted; empty is all that the repository has. A name that it does not have is an error of the commit.
	Pools []string
	// Open connects to it.
	Open Open
	// Last is a file that says which commit was the last good one. One process at a time has it.
	Last string
	// Credentials is a folder with the keys of a GitSource's Secret as files: username and password or bearerToken, and
	// ca.crt, for https; identity, known_hosts and, for an encrypted identity, password for ssh. Empty is none. It is read
	// anew for each look.
	Credentials string
	// Keys is a file, or a folder of files, of keys one of which must have signed each commit, as in the Secret of a
	// GitSource's verify; empty asks for no signature.
	Keys string
	// Defaults are the images of pools that set none: the controller's --os-image and --extensions-image.
	Defaults Images
	// Version of Bunsen, recorded on what it renders.
	Version string
	// Log tells what is taken, and why something is not.
	Log *slog.Logger
}

// Images are a cluster's defaults.
type Images struct {
	// OS is the default OS image, or "".
	OS string
	// Extensions is the default image of extensions, or "".
	Extensions string
}

// Repository is one repository that is followed. Its methods are for one goroutine; make one with New.
type Repository struct {
	config Config
	url    string // without credentials
	ref    Ref
	memory review.Renderings

	now func() time.Time
}

// New checks the configuration. It asks no remote.
func New(c Config) (*Repository, error) {
	ref, err := ParseRef(c.Ref)
	if err != nil {
		return nil, err
	}
	if c.URL, err = located(c.URL); err != nil {
		return nil, err
	}
	a, err := source.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if a.Password != "" {
		return nil, errors.New("the URL of the repository holds a password, which everybody who may list processes can see: put it into a file named password, and name its folder as the credentials")
	}
	if _, err := source.CleanPath(c.Path); err != nil {
		return nil, err
	}
	r := &Repository{config: c, url: a.String(), ref: ref, now: time.Now}
	r.memory.Defaults = render.Defaults{OSImageURL: c.Defaults.OS, ExtensionsImage: c.Defaults.Extensions}
	if _, _, err := r.connect(); err != nil {
		return nil, err
	}
	return r, nil
}

// located makes a folder's path absolute, and leaves every other address as it is.
func located(url string) (string, error) {
	if strings.Contains(url, "://") || filepath.IsAbs(url) {
		return url, nil
	}
	if info, err := os.Stat(url); err != nil || !info.IsDir() {
		return url, nil // user@host:path, or an error that ParseURL words
	}
	abs, err := filepath.Abs(url)
	if err != nil {
		return "", fmt.Errorf("finding the repository %s: %w", url, err)
	}
	return abs, nil
}

// connect prepares to ask the remote, with the credentials and keys of this moment. trust is the keys' digest.
func (r *Repository) connect() (remote Remote, trust string, err error) {
	a := Access{URL: r.config.URL, Path: r.config.Path}
	if a.Secret, err = credentials(r.config.Credentials); err != nil {
		return nil, "", err
	}
	if r.config.Keys != "" {
		data, err := keyFiles(r.config.Keys)
		if err != nil {
			return nil, "", fmt.Errorf("reading the keys of commits: %w", err)
		}
		keys, err := verify.ParseKeys(data)
		if err != nil {
			return nil, "", fmt.Errorf("reading the keys of commits from %s: %w", r.config.Keys, err)
		}
		a.Trust = keys.Digest()
		a.Verify = func(object []byte) (string, error) { return verify.Commit(object, keys, r.now()) }
	}
	if remote, err = r.config.Open(a); err != nil {
		return nil, "", r.reworded(err)
	}
	return remote, a.Trust, nil
}

// reworded says what stands for the Secret here, of which the errors of the source speak.
func (r *Repository) reworded(err error) error {
	f := fault.Of(err, "")
	if f.Reason != v1alpha1.ReasonAuthentication {
		return err
	}
	place := "no folder of credentials is given (--git-credentials)"
	if r.config.Credentials != "" {
		place = "the Secret's keys are the files of " + r.config.Credentials
	}
	return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: fmt.Errorf("%w; here %s", err, place)}
}

// pick asks the remote which commit to take.
func (r *Repository) pick(ctx context.Context, from Remote) (source.Picked, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	refs, err := from.List(ctx)
	if err != nil {
		return source.Picked{}, r.reworded(err)
	}
	return r.ref.pick(refs)
}
