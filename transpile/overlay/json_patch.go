package overlay

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// nodeAt returns the node to which a pointer's keys lead, or nil.
func nodeAt(n *yaml.Node, keys []string) *yaml.Node {
	for _, key := range keys {
		if n == nil {
			return nil
		}
		if i, ok := index(n, key); ok && i < len(n.Content) {
			n = n.Content[i]
			continue
		}
		_, n = documents.Field(n, key)
	}
	return n
}

// index reads a pointer's key as the index in a list. The key - is the end of the list, and negative numbers count from
// the end.
func index(n *yaml.Node, key string) (int, bool) {
	if n.Kind != yaml.SequenceNode {
		return 0, false
	}
	i, err := strconv.Atoi(key)
	switch {
	case key == "-":
		return len(n.Content), true
	case err == nil && i < 0:
		i += len(n.Content)
	}
	return i, err == nil && i >= 0 && i <= len(n.Content)
}
