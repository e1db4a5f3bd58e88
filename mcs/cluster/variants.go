package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// CheckVariants refuses a rendered config of other nodes alone, by a *NotForNodeError: it names its nodes. It is also
// for the nodes to which a config of its pool gives it, and for all nodes if it is the config of its pool. The function
// read returns a rendered config as JSON, or the error.
func CheckVariants(node, config string, pools []*mcfgv1.MachineConfigPool,
	read func(name string) ([]byte, error),
) error {
	raw, err := read(config)
	if err != nil && !errors.Is(err, mcs.ErrNoSuchConfig) {
		return err
	}
	ofOthers, own := namesNode(raw, node)
	if own {
		return nil
	}
	for _, pool := range pools {
		if pool.Name != v1alpha1.RenderedPool(config) {
			continue
		}
		for _, name := range mcs.ConfigsOf(pool) {
			raw, err := read(name)
			if errors.Is(err, mcs.ErrNoSuchConfig) {
				continue
			}
			if err != nil {
				return err
			}
			of := nodeConfigsIn(raw)
			switch {
			case name == config:
				return nil
			case of.IsZero():
			case of.Of(node) == config, of.Base == config:
				return nil
			}
			for other := range of.Nodes {
				ofOthers = ofOthers || of.Of(other) == config
			}
		}
	}
	if ofOthers {
		return &mcs.NotForNodeError{Node: node, Config: config, Why: errors.New("it is the config of other nodes")}
	}
	return nil
}

// IsOwn reports whether a rendered config is that of single nodes, or the base of such configs. The function read
// returns a rendered config as JSON.
func IsOwn(config string, pools []*mcfgv1.MachineConfigPool, read func(name string) ([]byte, error)) bool {
	if raw, err := read(config); err == nil &&
		annotationsIn(raw, v1alpha1.VariantOfAnnotation)[v1alpha1.VariantOfAnnotation] != "" {
		return true
	}
	for _, pool := range pools {
		if pool.Name != v1alpha1.RenderedPool(config) {
			continue
		}
		for _, name := range mcs.ConfigsOf(pool) {
			if raw, err := read(name); err == nil && nodeConfigsIn(raw).Base == config {
				return true
			}
		}
	}
	return false
}

// namesNode reports whether a config is that of single nodes, and names the node.
func namesNode(raw []byte, node string) (ofNodes, own bool) {
	annotations := annotationsIn(raw, v1alpha1.VariantOfAnnotation)
	nodes := strings.Split(annotations[v1alpha1.VariantNodesAnnotation], ",")
	return annotations[v1alpha1.VariantOfAnnotation] != "", node != "" && slices.Contains(nodes, node)
}

// VariantNode is what the server knows about a node.
type VariantNode struct {
	// the node, and the pools that it is in
	Name  string
	Pools []string
	// what it reports, which may be wrong
	Reported []string
}

// VariantConfigs returns the names of the configs that a node may run: those of its pools, its own variants of them,
// and of those in its report the ones that it may read. The function read returns a rendered config as JSON, or the
// error.
func VariantConfigs(node VariantNode, pools []*mcfgv1.MachineConfigPool,
	read func(name string) ([]byte, error),
) ([]string, error) {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, pool := range pools {
		if !slices.Contains(node.Pools, pool.Name) {
			continue
		}
		for _, name := range mcs.ConfigsOf(pool) {
			raw, err := read(name)
			if errors.Is(err, mcs.ErrNoSuchConfig) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if of := nodeConfigsIn(raw); of.IsZero() {
				add(name)
			} else {
				add(of.Of(node.Name))
			}
		}
	}
	for _, name := range node.Reported {
		err := mcs.CheckNodeConfig(node.Name, node.Pools, name)
		if err == nil {
			err = CheckVariants(node.Name, name, pools, read)
		}
		switch refused := new(mcs.NotForNodeError); {
		case err == nil:
			add(name)
		case !errors.As(err, &refused):
			return nil, err
		}
	}
	return names, nil
}

// nodeConfigsIn returns the configs of single nodes that a config in JSON names; none for an invalid annotation.
func nodeConfigsIn(raw []byte) v1alpha1.NodeConfigs {
	of, _ := v1alpha1.ParseNodeConfigs(annotationsIn(raw,
		v1alpha1.NodeConfigsAnnotation)[v1alpha1.NodeConfigsAnnotation])
	return of
}

// annotationsIn parses a config only if it can have an annotation with the key.
func annotationsIn(raw []byte, key string) map[string]string {
	var rendered metav1.PartialObjectMetadata
	if !bytes.Contains(raw, []byte(key)) || json.Unmarshal(raw, &rendered) != nil {
		return nil
	}
	return rendered.Annotations
}
