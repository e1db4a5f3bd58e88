package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bootstrap"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/files"
)

// withoutCluster constructs what reads files, or a repository.
func (p *program) withoutCluster(context.Context) (err error) {
	added, err := p.extra.additions()
	if err != nil {
		return err
	}
	p.extras = &extras{files: added, set: p.shelf.SetExtra, log: p.log}
	if p.from.tokens != "" {
		tokens, err := files.OpenTokens(p.from.tokens, filepath.Join(p.from.cache, "tokens"), p.log, time.Now)
		if err != nil {
			return fmt.Errorf("opening --tokens-file: %w", err)
		}
		p.tokens = tokens
		p.closers = append(p.closers, tokens)
		p.background(tokens.Run)
	}
	offers := files.NewOffers(p.shelf, p.log)
	if p.from.dir != "" {
		dir, err := files.OpenDir(p.from.dir, bootstrap.CheckName, offers, p.log)
		if err != nil {
			return fmt.Errorf("opening --from-dir: %w", err)
		}
		p.background(dir.Run)
	}
	if p.from.git != "" {
		g := p.git
		if err := g.readable(); err != nil {
			return err
		}
		repository, trees, err := openRepository(bootstrap.Config{
			URL: p.from.git, Ref: g.ref, Path: g.path, Pools: g.pools, Credentials: g.credentials, Keys: g.keys,
			Defaults: bootstrap.Images{OS: g.osImage, Extensions: g.extensionsImage}, Version: version, Log: p.log,
		}, p.from.cache)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, trees)
		p.background(func(ctx context.Context) { repository.Run(ctx, g.interval, offers.Set) })
	}
	dir := p.tls.dir
	if dir == "" {
		dir = defaultCertDir
	}
	p.cert, err = certs.OpenCertificates(dir, p.tls.hostnames, p.log)
	return err
}
