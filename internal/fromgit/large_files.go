package fromgit

import (
	"sync"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/transpile"
)

// largeFiles returns a function that finds a file of the content store that a config of a commit names. It merges the
// configs of single nodes only if no config of a pool names the file.
func largeFiles(res transpile.Result, pools []review.PoolRendering) func(hash string) (machineconfig.LargeFile, bool) {
	ofPools := map[string]machineconfig.LargeFile{}
	for _, f := range transpile.Contents(res.Fragments) {
		ofPools[f.Hash] = f
	}
	for _, p := range pools {
		for _, f := range p.Rendered.Contents {
			ofPools[f.Hash] = f
		}
	}
	ofNodes := sync.OnceValue(func() map[string]machineconfig.LargeFile {
		all := map[string]machineconfig.LargeFile{}
		for _, p := range pools {
			for node := range p.Rendered.Nodes.Nodes {
				own, err := p.Rendered.Node(node)
				if err != nil {
					continue // This line is unreachable, because the config was merged for its name before.
				}
				for _, f := range own.Contents {
					all[f.Hash] = f
				}
			}
		}
		return all
	})
	return func(hash string) (machineconfig.LargeFile, bool) {
		if f, ok := ofPools[hash]; ok {
			return f, true
		}
		f, ok := ofNodes()[hash]
		return f, ok
	}
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
