package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/files"
)

// withoutCluster constructs those parts of the server that read files or a repository.
func (p *program) withoutCluster(context.Context) (err error) {
	added, err := p.extra.additions()
	if err != nil {
		return err
	}
	p.additions = &files.Additions{Files: added, Set: p.pools.SetExtra, Log: p.log}
	if p.from.tokens != "" {
		tokens, err := files.OpenTokens(p.from.tokens, filepath.Join(p.from.cache, "tokens"), p.log, time.Now)
		if err != nil {
			return fmt.Errorf("opening --tokens-file: %w", err)
		}
		p.apis.tokens = tokens
		p.closers = append(p.closers, tokens)
		p.background(tokens.Run)
	}
	if p.from.dir != "" {
		dir, err := files.OpenDir(p.from.dir, fromgit.CheckName, p.pools, p.log)
		if err != nil {
			return fmt.Errorf("opening --from-dir: %w", err)
		}
		if err := p.localContent(directoryFiles(dir)); err != nil {
			return err
		}
		p.background(dir.Run)
	}
	if p.from.git != "" {
		g := p.git
		if err := g.readable(); err != nil {
			return err
		}
		repository, trees, err := openRepository(fromgit.Config{
			URL: p.from.git, Ref: g.ref, Path: g.path, Pools: g.pools, Credentials: g.credentials, Keys: g.keys,
			Defaults: fromgit.Images{OS: g.osImage, Extensions: g.extensionsImage}, Version: version, Log: p.log,
		}, p.from.cache)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, trees)
		p.pools.SetReader(repository.NodeConfig)
		if err := p.localContent(repositoryFiles(repository)); err != nil {
			return err
		}
		p.background(func(ctx context.Context) {
			repository.Run(ctx, g.interval, func(configs map[string]*mcfgv1.MachineConfig) error {
				return files.SetConfigs(p.pools, configs, p.log)
			})
		})
	}
	dir := p.tls.dir
	if dir == "" {
		dir = defaultCertDir
	}
	p.cert, err = certs.OpenCertificates(dir, p.tls.hostnames, p.log)
	return err
}
