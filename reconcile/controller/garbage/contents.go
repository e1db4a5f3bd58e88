package garbage

import (
	"context"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// sweepContentsEvery is how often the controller checks the content store. A sweep lists all chunks.
const sweepContentsEvery = 10 * time.Minute

// collectContents deletes files of the content store that no config names. It waits while a revision is partly applied,
// because the controller may restore the earlier one.
func (g *Controller) collectContents(ctx context.Context, h render.Holders) error {
	now := g.Now()
	if g.Contents == nil || now.Sub(g.swept) < sweepContentsEvery {
		return nil
	}
	for i := range h.Sources {
		if h.Sources[i].Status.Applying != nil {
			return nil
		}
	}
	g.swept = now
	_, err := g.Contents.Collect(ctx, render.NamedContents(h, now))
	return err
}

// writeContents writes the large files of a config that is created again.
func (g *Controller) writeContents(ctx context.Context, res transpile.Result, rendered render.Rendered) error {
	all := slices.Concat(transpile.Contents(res.Fragments), rendered.Contents)
	var needed []contentstore.File
	named := map[string]bool{}
	for _, f := range machineconfig.RemoteFiles(rendered.Config) {
		named[f.Hash] = true
	}
	for _, f := range all {
		if named[f.Hash] {
			needed = append(needed, f)
			delete(named, f.Hash)
		}
	}
	if g.Contents == nil {
		return nil
	}
	return g.Contents.Write(ctx, needed)
}
