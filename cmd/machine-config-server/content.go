package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"

	"github.com/bunsen-os/bunsen/mcs/content"

	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
)

// contentOf prepares to send files to machines: those of the content store, which stored has, and those of registries.
// The copies of files are in --cache-dir or, without it, in a directory that the server removes when it stops.
func (p *program) contentOf(stored content.Stored) (*content.Copies, error) {
	from, err := p.registries()
	if err == nil {
		err = from.check()
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.from.cache, "content")
	if p.from.cache == "" {
		temporary, err := os.MkdirTemp("", "machine-config-server-")
		if err != nil {
			return nil, fmt.Errorf("creating a directory for copies of files (or set --cache-dir): %w", err)
		}
		p.closers = append(p.closers, removed(temporary))
		dir = temporary
	}
	all, err := content.NewCopies(content.Options{
		Stored: stored, Registries: from, Dir: dir, Max: p.limits.content << 20,
		Log: p.log, Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	p.pools.SetContentStore()
	urls := nodeURLs(p.tls.hostnames, p.tls.listen)
	p.apis.content = mcshttp.Content{
		Open: func(ctx context.Context, name string) (io.ReadSeekCloser, int64, error) { return all.Open(ctx, name) },
		Identity: func() content.Identity {
			return content.Identity{Keys: p.cert.GrantKeys(), CA: p.cert.CA(), Covers: p.cert.Covers, URLs: urls}
		},
	}
	return all, nil
}

// registryStall is how long a registry may send nothing, and registryRate the most bytes of a second that one file
// takes.
const (
	registryStall = 30 * time.Second
	registryRate  = 256 << 20
)

// registries are the OCI registries, as the server reaches them. They implement content.Registries.
type registries struct {
	options download.Options
	// authorities are the files of --registry-ca.
	authorities []string
	// credentials is the file of --registry-credentials, and conf that of --registries-conf; empty for none.
	credentials, conf string
}

// registries returns the registries with the CAs of --registry-ca and the credentials of --registry-credentials.
func (p *program) registries() (registries, error) {
	out := registries{
		options: download.Options{
			Agent: "machine-config-server/" + version, Stall: registryStall,
			Rate: registryRate, NoLinkLocal: true, Failures: download.NewFailures(),
		},
		credentials: p.extra.registryCredentials, conf: p.extra.registriesConf,
	}
	named, err := registryCAs(p.extra.registryCAs)
	if err != nil {
		return out, err
	}
	for _, r := range named {
		out.authorities = append(out.authorities, r.file)
	}
	return out, nil
}

// download returns a client with the CAs and credentials that the files have now, because a mounted Secret may change.
func (r registries) download() (*download.Client, error) {
	o := r.options
	for _, file := range r.authorities {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading --registry-ca: %w", err)
		}
		o.Authorities = append(o.Authorities, pem)
	}
	var err error
	if o.Logins, err = r.logins(); err != nil {
		return nil, err
	}
	o.Mirrors = r.mirrors()
	return download.New(o), nil
}

// mirrors reads the mirrors of registries.
func (r registries) mirrors() download.Mirrors {
	if r.conf == "" {
		return download.Mirrors{}
	}
	return download.ReadMirrors(r.conf)
}

// check returns an error if a file of the flags cannot be read.
func (r registries) check() error {
	_, err := r.download()
	if err == nil && r.conf != "" {
		if _, err = os.Stat(r.conf); err == nil {
			err = r.mirrors().Err()
		}
		if err != nil {
			err = fmt.Errorf("reading --registries-conf: %w", err)
		}
	}
	return err
}

// logins reads the credentials.
func (r registries) logins() (download.Logins, error) {
	if r.credentials == "" {
		return nil, nil
	}
	text, err := os.ReadFile(r.credentials)
	if err != nil {
		return nil, fmt.Errorf("reading --registry-credentials: %w", err)
	}
	found, err := download.ParseLogins(text)
	if err != nil {
		return nil, fmt.Errorf("reading --registry-credentials %s: %w", r.credentials, err)
	}
	return found, nil
}

// contentRegistry returns the repository of --content-registry; the zero value without the flag.
func (p *program) contentRegistry() (machineconfig.Artifact, error) {
	name := p.extra.contentRegistry
	if name == "" {
		return machineconfig.Artifact{}, nil
	}
	at, err := machineconfig.ParseRepository(name)
	if err != nil {
		return at, fmt.Errorf("--content-registry: %w", err)
	}
	return at, nil
}

// Resolve implements content.Registries.
func (r registries) Resolve(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	client, err := r.download()
	if err != nil {
		return a, err
	}
	return client.Resolve(ctx, a)
}

// File implements content.Registries.
func (r registries) File(ctx context.Context, a machineconfig.Artifact) (download.Layer, io.ReadCloser, error) {
	client, err := r.download()
	if err != nil {
		return download.Layer{}, nil, err
	}
	return client.File(ctx, a)
}

// removed is a directory that Close removes.
type removed string

// Close implements io.Closer.
func (r removed) Close() error { return os.RemoveAll(string(r)) }
