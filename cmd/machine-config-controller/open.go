package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/oci"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// keptTrees is how many commits of a source stay on disk, so that a revert needs no fetch.
const keptTrees = 5

// opener opens repositories. All repositories share one store for their trees.
func opener(dir string) (gitsource.Open, *repository.Store, error) {
	dir, err := storeDir(dir)
	if err != nil {
		return nil, nil, err
	}
	trees, err := repository.Open(dir, keptTrees)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store of trees (--store): %w", err)
	}
	connector := &repository.Connector{
		Now: time.Now, Cloud: &tokens.CloudTokens{Getenv: os.Getenv},
		Memory: memory.New(repository.MemoryOfSources),
	}
	fetched, err := objects.NewCache(trees.Objects(), time.Now())
	if err != nil {
		return nil, nil, errors.Join(err, trees.Close())
	}
	share, servers := &sharing{}, &transport.Servers{Now: time.Now}
	open := func(spec v1alpha1.GitSourceSpec, secrets gitsource.Secrets) (gitsource.Repository, error) {
		if a, err := source.ParseURL(spec.URL); err == nil && a.Password != "" {
			return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, errors.New("spec.url holds a password, which "+
				"everybody who may read GitSources can see: put it into a Secret, name that in spec.secretRef, and "+
				"change the password"))
		}
		if strings.HasPrefix(spec.URL, "oci://") {
			return openArtifacts(connector, trees, spec, secrets)
		}
		if spec.Ref.Digest != "" {
			return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
				errors.New("spec.ref.digest is for oci:// only: set ref.commit for a git repository"))
		}
		c := git.Config{
			URL: spec.URL, Secret: secrets.Credentials, HostsRequired: true, Cache: fetched,
			Servers: servers,
		}
		c.Submodules = slices.Contains(spec.Include, v1alpha1.ContentSubmodules)
		remote, err := connector.OpenAs(spec.Provider, c, secrets.Proxy)
		if err != nil {
			return nil, err
		}
		return polled{
			repository.Repository{
				Remote: remote, Store: trees, URL: remote.URL(), Path: spec.Path, Ref: &spec.Ref,
				Include: included(spec),
			},
			share, repository.ListingKey(spec.URL, secrets.Credentials, secrets.Proxy,
				map[string][]byte{"provider": []byte(spec.Provider)}), remote.ListPrefixes,
		}, nil
	}
	return open, trees, nil
}

// included returns a text for the key of a stored tree. It names, in a fixed order, the content that the tree has
// besides the files of the commit.
func included(spec v1alpha1.GitSourceSpec) string {
	var all []string
	for _, content := range spec.Include {
		all = append(all, string(content))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// sharing has the data that sources with the same address, credentials and proxy share.
type sharing struct {
	listings repository.Listings
	evidence repository.Evidence
}

// polled is a git repository from which several sources read. These sources share the listings of its refs.
type polled struct {
	repository.Repository
	*sharing
	key  string
	list func(ctx context.Context, prefixes []string) ([]source.Ref, error)
}

// Evidence returns the objects of the commits since picked.Applied.
func (p polled) Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error) {
	return p.evidence.Read(ctx, p.key, picked, p.Repository.Evidence)
}

// Poll lists the refs, or uses the listing of another source. If a ref does not exist, Poll lists all branches and
// tags, because the error of source.Pick names them.
func (p polled) Poll(ctx context.Context, at source.Poll) (source.Listing, error) {
	found, err := p.listings.List(ctx, repository.Request{Poll: at, Key: p.key, Prefixes: source.Prefixes(*p.Ref)},
		p.list)
	if err != nil {
		return source.Listing{}, err
	}
	if _, err := source.Pick(found.Refs, *p.Ref); fault.Of(err, "").Reason != v1alpha1.ReasonRefNotFound {
		return found, nil
	}
	refs, err := p.List(ctx)
	return source.Listing{Refs: refs, At: at.Now}, err
}

// openArtifacts opens a repository of an OCI registry.
func openArtifacts(c *repository.Connector, trees *repository.Store, spec v1alpha1.GitSourceSpec,
	secrets gitsource.Secrets,
) (gitsource.Repository, error) {
	var keys map[string][]byte
	if v := spec.Verify; v != nil { // If the Secret is empty, the verification of signatures fails.
		if v.Mode != "" && v.Mode != v1alpha1.VerifyHead || len(v.Signers)+len(v.Committers)+len(v.Authors) > 0 {
			return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
				errors.New("spec.verify of oci:// has the mode Head only, without signers, committers and authors: "+
					"remove them"))
		}
		keys = map[string][]byte{}
		maps.Copy(keys, secrets.Keys)
	}
	if len(spec.Include) > 0 {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
			errors.New("spec.include is for git repositories only: an artifact has the contents of all its files. "+
				"Remove it"))
	}
	config := oci.Config{URL: spec.URL, Ref: spec.Ref, Secret: secrets.Credentials, HostsRequired: true}
	remote, trust, err := c.ArtifactsAs(spec.Provider, config, keys, secrets.Proxy)
	if err != nil {
		return nil, err
	}
	return repository.Repository{Remote: remote, Store: trees, URL: remote.URL(), Path: spec.Path, Trust: trust}, nil
}

// storeDir returns the directory of --store. The default directory belongs to the user, because another user could
// create a directory in a shared temporary directory first.
func storeDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a directory for fetched trees: %w: name one with --store", err)
	}
	return filepath.Join(cache, "bunsen", "store"), nil
}
