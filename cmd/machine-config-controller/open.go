package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/oci"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// keptTrees is how many commits of a source stay on disk, so that a revert needs no fetch.
const keptTrees = 5

// opener opens repositories. All repositories share one store for their trees, which the caller closes.
func opener(dir string) (gitsource.Open, *repository.Store, error) {
	dir, err := storeDir(dir)
	if err != nil {
		return nil, nil, err
	}
	trees, err := repository.Open(dir, keptTrees)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store of trees (--store): %w", err)
	}
	fetched, err := objects.NewCache(trees.Objects(), time.Now())
	if err != nil {
		return nil, nil, errors.Join(err, trees.Close())
	}
	o := &repository.Opener{
		Now: time.Now, Store: trees, Objects: fetched, Servers: &transport.Servers{Now: time.Now},
		Cloud: &tokens.CloudTokens{Getenv: os.Getenv}, Memory: memory.New(repository.MemoryOfSources),
	}
	return func(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (gitsource.Repository, error) {
		return o.Open(spec, secrets)
	}, trees, nil
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

// contentFlags say where large files are.
type contentFlags struct{ registry, credentials, ca string }

// open returns the repository of --content-registry; nil for none.
func (f contentFlags) open() (content.Registry, error) {
	if f.registry == "" {
		if f.credentials != "" || f.ca != "" {
			return nil, errors.New("--content-registry-credentials and --content-registry-ca need --content-registry")
		}
		return nil, nil
	}
	var settings map[string][]byte
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("reading --content-registry-ca: %w", err)
		}
		settings = map[string][]byte{"ca.crt": pem}
	}
	transport, err := access.NewConnect(source.Address{}, settings, nil)
	if err != nil {
		return nil, fmt.Errorf("reading --content-registry-ca: %w", err)
	}
	at, err := machineconfig.ParseRepository(f.registry)
	if err != nil {
		return nil, fmt.Errorf("--content-registry: %w", err)
	}
	if _, err := f.login(at); err != nil {
		return nil, err
	}
	out, err := oci.NewContents(f.registry, func(context.Context, string) (auth.Credential, error) {
		return f.login(at)
	}, transport.WithoutKeepAlive())
	if err != nil {
		return nil, fmt.Errorf("reading --content-registry: %w", err)
	}
	return out, nil
}

// login returns the credentials for a repository, which a mounted Secret may change at any time.
func (f contentFlags) login(at machineconfig.Artifact) (auth.Credential, error) {
	if f.credentials == "" {
		return auth.EmptyCredential, nil
	}
	text, err := os.ReadFile(f.credentials)
	if err != nil {
		return auth.EmptyCredential, fmt.Errorf("reading --content-registry-credentials: %w", err)
	}
	logins, err := download.ParseLogins(text)
	if err != nil {
		return auth.EmptyCredential, fmt.Errorf("reading --content-registry-credentials %s: %w", f.credentials, err)
	}
	user, password := logins.Find(at)
	return auth.Credential{Username: user, Password: password}, nil
}
