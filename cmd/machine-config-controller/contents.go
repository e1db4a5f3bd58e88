package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/oci"
)

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
