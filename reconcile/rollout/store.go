package rollout

import (
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// NodeConfigStore has the configs of single nodes. The zero value is empty and ready for use by several goroutines.
type NodeConfigStore struct {
	mu    sync.Mutex
	known map[string]entry
}

type entry struct {
	text    string
	configs v1alpha1.NodeConfigs
}

// Put stores the configs of the nodes that a rendered config of a pool names. An invalid annotation counts as absent.
// Put returns nil, because no decision about a pool depends on it before the pool names the config.
func (s *NodeConfigStore) Put(mc *mcfgv1.MachineConfig) []string {
	text := mc.Annotations[v1alpha1.NodeConfigsAnnotation]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[mc.Name].text == text {
		return nil
	}
	configs, err := v1alpha1.ParseNodeConfigs(text)
	if err != nil || configs.IsZero() {
		delete(s.known, mc.Name)
		return nil
	}
	if s.known == nil {
		s.known = map[string]entry{}
	}
	s.known[mc.Name] = entry{text, configs}
	return nil
}

// Drop removes a deleted config.
func (s *NodeConfigStore) Drop(mc *mcfgv1.MachineConfig) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, mc.Name)
	return nil
}

// Of returns the configs of the nodes for a rendered config of a pool; the zero value if all nodes run that config.
func (s *NodeConfigStore) Of(config string) v1alpha1.NodeConfigs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[config].configs
}

// All returns a rendered config of a pool and the configs of single nodes that belong to it; none for no config. The
// parameter at is a result of v1alpha1.ConfigAt.
func (s *NodeConfigStore) All(at string) []string {
	name := v1alpha1.ConfigName(at)
	if all := s.Of(name).All(); len(all) > 0 || name == "" {
		return all
	}
	return []string{name}
}
