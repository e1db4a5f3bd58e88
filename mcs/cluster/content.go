package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcs"
)

// maxStored is how many configs the server remembers the files of the content store of.
const maxStored = 1024

// NodeContent returns nil if a node may read the file of the content store with a hash: a config that the node may run
// names it. The error is an *mcs.NotForNodeError otherwise, and like that of NodeConfig if it is not known.
func (c *Cluster) NodeContent(ctx context.Context, node, hash string) error {
	// As in NodeConfig, a client that disconnects does not cancel the read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	pools, reported, err := c.nodes.readNode(ctx, node)
	if refused := new(mcs.NotForNodeError); errors.As(err, &refused) {
		refused.Config = "file " + hash
	}
	if err == nil && !c.nodes.pools.informer.HasSynced() {
		err = mcs.ErrNotSynced
	}
	var names []string
	if err == nil {
		names, err = VariantConfigs(VariantNode{Name: node, Pools: pools, Reported: reported}, c.nodes.pools.list(),
			func(name string) ([]byte, error) { return c.nodes.content(ctx, name) })
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		stored, err := c.nodes.storedIn(ctx, name)
		switch {
		case err == nil && slices.Contains(stored, hash):
			return nil
		case err != nil && !errors.Is(err, mcs.ErrNoSuchConfig):
			return err
		}
	}
	if reported == nil {
		return fmt.Errorf("%w: which configs node %s may run is not known", mcs.ErrAPIUnavailable, node)
	}
	return &mcs.NotForNodeError{
		Node: node, Config: "file " + hash,
		Why: errors.New("no config that it may run names the file"),
	}
}

// storedIn returns the hashes of the files of a rendered config that are in the content store. The name of a config
// identifies its content, so storedIn reads each name once.
func (n *nodes) storedIn(ctx context.Context, name string) ([]string, error) {
	n.mu.Lock()
	hashes, known := n.stored[name]
	n.mu.Unlock()
	if known {
		return hashes, nil
	}
	raw, err := n.content(ctx, name)
	if err != nil {
		return nil, err
	}
	rendered := &mcfgv1.MachineConfig{}
	if err := json.Unmarshal(raw, rendered); err != nil {
		return nil, fmt.Errorf("reading config %s: %w", name, err)
	}
	hashes = mcs.StoredHashes(rendered)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.stored) >= maxStored {
		clear(n.stored)
	}
	n.stored[name] = hashes
	return hashes, nil
}
