package histories

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
)

// What an API server answers to a write that came too late.
var (
	errConflict = errors.New("the object was changed meanwhile")
	errGone     = errors.New("the object is gone")
)

// server holds objects as an API server does: a write makes a new version of an object, and watches are told of each in
// order. An object in it is never changed in place.
type server struct {
	version int
	nodes   map[string]*corev1.Node
	pools   map[string]*mcfgv1.MachineConfigPool
	// configs are the MachineConfigs that exist.
	configs map[string]*config
	// nodeLog and poolLog are what watches are told, and in which order.
	nodeLog []nodeChange
	poolLog []*mcfgv1.MachineConfigPool
}

// nodeChange is a new version of a node; now is nil where it was deleted.
type nodeChange struct {
	name string
	now  *corev1.Node
}

func newServer() server {
	return server{
		nodes: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{},
		configs: map[string]*config{},
	}
}

func (s *server) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

// putNode stores a node as it is given.
func (s *server) putNode(n *corev1.Node) {
	n.ResourceVersion = s.next()
	s.nodes[n.Name] = n
	s.nodeLog = append(s.nodeLog, nodeChange{n.Name, n})
}

func (s *server) deleteNode(name string) {
	if s.nodes[name] == nil {
		return
	}
	s.version++
	delete(s.nodes, name)
	s.nodeLog = append(s.nodeLog, nodeChange{name, nil})
}

// editNode patches a node, whatever its version. It tells whether anything changed.
func (s *server) editNode(name string, edit func(*corev1.Node)) bool {
	old := s.nodes[name]
	if old == nil {
		return false
	}
	n := *old
	n.Annotations, n.Labels = maps.Clone(old.Annotations), maps.Clone(old.Labels)
	n.Spec.Taints, n.Status.Conditions = slices.Clone(old.Spec.Taints), slices.Clone(old.Status.Conditions)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	edit(&n)
	if sameNode(old, &n) {
		return false
	}
	s.putNode(&n)
	return true
}

// patchNode patches a node that is still as it was read.
func (s *server) patchNode(read *corev1.Node, edit func(*corev1.Node)) (changed bool, err error) {
	switch is := s.nodes[read.Name]; {
	case is == nil:
		return false, errGone
	case is.ResourceVersion != read.ResourceVersion:
		return false, errConflict
	}
	return s.editNode(read.Name, edit), nil
}

func sameNode(a, b *corev1.Node) bool {
	return maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels) &&
		a.Spec.Unschedulable == b.Spec.Unschedulable && slices.Equal(a.Spec.Taints, b.Spec.Taints) &&
		slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

func (s *server) putPool(p *mcfgv1.MachineConfigPool) {
	p.ResourceVersion = s.next()
	s.pools[p.Name] = p
	s.poolLog = append(s.poolLog, p)
}

// editPool patches a pool, whatever its version.
func (s *server) editPool(name string, edit func(*mcfgv1.MachineConfigPool)) {
	p := *s.pools[name]
	p.Annotations = maps.Clone(p.Annotations)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Status = *p.Status.DeepCopy()
	edit(&p)
	if old := s.pools[name]; maps.Equal(old.Annotations, p.Annotations) && samePool(old, &p) {
		return
	}
	s.putPool(&p)
}

// patchPool patches a pool that is still as it was read.
func (s *server) patchPool(read *mcfgv1.MachineConfigPool, edit func(*mcfgv1.MachineConfigPool)) error {
	if s.pools[read.Name].ResourceVersion != read.ResourceVersion {
		return errConflict
	}
	s.editPool(read.Name, edit)
	return nil
}

func samePool(a, b *mcfgv1.MachineConfigPool) bool {
	return a.Spec.Paused == b.Spec.Paused && a.Spec.MaxUnavailable == b.Spec.MaxUnavailable &&
		a.Spec.Configuration.Name == b.Spec.Configuration.Name && sameStatus(&a.Status, &b.Status)
}

func sameStatus(a, b *mcfgv1.MachineConfigPoolStatus) bool {
	return a.Configuration.Name == b.Configuration.Name && a.MachineCount == b.MachineCount &&
		a.UpdatedMachineCount == b.UpdatedMachineCount && a.ReadyMachineCount == b.ReadyMachineCount &&
		a.UnavailableMachineCount == b.UnavailableMachineCount && a.DegradedMachineCount == b.DegradedMachineCount &&
		slices.Equal(a.Conditions, b.Conditions)
}
