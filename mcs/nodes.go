package mcs

import (
	"encoding/json"
	"fmt"
	"maps"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// maxNodeConfigs is how many configs of single nodes Pools keeps. A machine boots once, so the configs are kept only
// for machines that boot at the same time or try again.
const maxNodeConfigs = 128

// ReadConfig reads a rendered config of the pools, as JSON.
type ReadConfig func(name string) ([]byte, error)

// SetReader sets how Pools reads the configs of single nodes. Without a reader, their machines have to retry.
func (p *Pools) SetReader(read ReadConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = read
}

// NodeConfig returns the config for the machine of a node: the node's own config if the pool has one for it, and
// otherwise the config of the pool. A machine without the name of its node gets the config of the pool. If the node's
// own config cannot be read, the machine has to retry, because the config of the pool is not that of its node. The
// errors are those of Config.
func (p *Pools) NodeConfig(pool, node string) (*ServedConfig, error) {
	config, err := p.Config(pool)
	if err != nil || node == "" {
		return config, err
	}
	if _, own := config.nodes.Nodes[node]; !own {
		return config, nil
	}
	name := config.nodes.Of(node)
	p.mu.RLock()
	known, read := p.own[pool+"/"+name], p.read
	p.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	if read == nil {
		return nil, unavailableError("this server cannot read the config of node " + node + ": a server without a " +
			"cluster needs --from-git for it")
	}
	rendered := &mcfgv1.MachineConfig{}
	raw, err := read(name)
	if err == nil {
		err = json.Unmarshal(raw, rendered)
	}
	if err == nil {
		err = machineconfig.CheckName(pool, rendered, rendered.Spec)
	}
	if err == nil && rendered.Name != name {
		err = fmt.Errorf("it is the config %s", rendered.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: reading the config of node %s: %w", ErrNothingRendered, node, err)
	}
	p.writing.Lock()
	own := newConfig(Input{Pool: pool, Rendered: rendered, Extra: p.extra, Content: p.content})
	p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == nil || len(p.own) >= maxNodeConfigs {
		p.own = map[string]*ServedConfig{}
	}
	p.own[pool+"/"+name] = own
	return own, nil
}

// dropNodeConfigs removes the kept configs of single nodes, because the added files have changed.
func dropNodeConfigs(p *Pools) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = nil
}

// asBase returns a rendered config of a pool in the form that a machine gets, with the configs of single nodes. A
// machine without a config of its own runs the content under the name of that content.
func asBase(rendered *mcfgv1.MachineConfig) (*mcfgv1.MachineConfig, v1alpha1.NodeConfigs) {
	if rendered == nil {
		return nil, v1alpha1.NodeConfigs{}
	}
	nodes, err := v1alpha1.ParseNodeConfigs(rendered.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil || nodes.IsZero() {
		return rendered, v1alpha1.NodeConfigs{}
	}
	base := *rendered
	base.Name, base.Annotations = nodes.Base, maps.Clone(rendered.Annotations)
	delete(base.Annotations, v1alpha1.NodeConfigsAnnotation)
	return &base, nodes
}
