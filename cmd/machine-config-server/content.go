package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/content/copies"
	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
	"github.com/bunsen-os/bunsen/mcs/served"
)

// contentOf returns the files of the content store of a cluster. Their copies are in --cache-dir or, without it, in a
// directory that the server removes when it stops.
func (p *program) contentOf(config *rest.Config) (mcshttp.Content, error) {
	dir := filepath.Join(p.from.cache, "content")
	if p.from.cache == "" {
		temporary, err := os.MkdirTemp("", "machine-config-server-")
		if err != nil {
			return mcshttp.Content{}, fmt.Errorf("creating a directory for files of the content store (or set --cache-dir): %w", err)
		}
		p.closers = append(p.closers, removed(temporary))
		dir = temporary
	}
	all, err := copies.New(config, copies.Options{Dir: dir, Max: p.limits.content << 20, Log: p.log, Now: time.Now})
	if err != nil {
		return mcshttp.Content{}, err
	}
	served.SetContentStore(p.pools)
	urls := nodeURLs(p.tls.hostnames, p.tls.listen)
	return mcshttp.Content{
		Open: func(ctx context.Context, hash string) (io.ReadSeekCloser, int64, error) { return all.Open(ctx, hash) },
		Identity: func() content.Identity {
			return content.Identity{Keys: p.cert.GrantKeys(), CA: p.cert.CA(), Covers: p.cert.Covers, URLs: urls}
		},
	}, nil
}

// removed is a directory that Close removes.
type removed string

// Close implements io.Closer.
func (r removed) Close() error { return os.RemoveAll(string(r)) }
