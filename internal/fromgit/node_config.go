package fromgit

import (
	"encoding/json"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// NodeConfig returns a rendered config of single nodes of the applied commit, as JSON.
func (r *Repository) NodeConfig(name string) ([]byte, error) {
	applied := r.applied.Load()
	if applied == nil {
		return nil, fmt.Errorf("reading config %s: no commit is applied yet", name)
	}
	p, ok := applied.own[v1alpha1.RenderedPool(name)]
	node, own := p.Rendered.NodeOf(name)
	if !ok || !own {
		return nil, fmt.Errorf("reading config %s: the applied commit %s has no such config", name,
			applied.Commit.Revision)
	}
	rendered, err := p.Rendered.Node(node)
	if err != nil {
		return nil, err
	}
	p.Rendered = rendered
	return json.Marshal(r.object(p, applied.Commit))
}
