package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
)

// NodeConfigs are the configs of the nodes of a pool, as NodeConfigsAnnotation has them on the config of the pool.
//
// +kubebuilder:object:generate=false
type NodeConfigs struct {
	// Base is the rendered config of all nodes that Nodes does not have.
	Base string `json:"base"`
	// Nodes maps the names of nodes to the hashes in the names of their own rendered configs.
	Nodes map[string]string `json:"nodes"`
	// Secrets is true if Base or a node's own config may refer to secrets. Then the SecretsRevision of the pool's
	// config has the revisions of all of them.
	Secrets bool `json:"secrets,omitempty"`
}

// ParseNodeConfigs reads NodeConfigsAnnotation. An empty text has no configs.
func ParseNodeConfigs(text string) (NodeConfigs, error) {
	var c NodeConfigs
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return NodeConfigs{}, fmt.Errorf("reading annotation %s: %w", NodeConfigsAnnotation, err)
	}
	return c, nil
}

// IsZero reports whether all nodes of the pool run the same config.
func (c NodeConfigs) IsZero() bool { return len(c.Nodes) == 0 }

// String returns the text of NodeConfigsAnnotation; empty if all nodes run the same config.
func (c NodeConfigs) String() string {
	if c.IsZero() {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "" // There is no error, because texts can always be encoded.
	}
	return string(text)
}

// Of returns the rendered config of a node. The config of a node without its own, or of no node, is Base.
func (c NodeConfigs) Of(node string) string {
	hash, ok := c.Nodes[node]
	if !ok {
		return c.Base
	}
	return "rendered-" + RenderedPool(c.Base) + "-" + hash
}

// Set makes config the rendered config of a node.
func (c *NodeConfigs) Set(node, config string) {
	if c.Nodes == nil {
		c.Nodes = map[string]string{}
	}
	c.Nodes[node] = strings.TrimPrefix(config, "rendered-"+RenderedPool(c.Base)+"-")
}

// All returns the names of all rendered configs, with Base, each once.
func (c NodeConfigs) All() []string {
	if c.Base == "" {
		return nil
	}
	out, had := []string{c.Base}, map[string]bool{}
	for node, hash := range c.Nodes {
		if !had[hash] {
			had[hash] = true
			out = append(out, c.Of(node))
		}
	}
	return out
}
