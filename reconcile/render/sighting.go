package render

import (
	"reflect"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sighting is what is remembered of one object, so that it is known again without reading it.
type sighting struct {
	name, version string
	uid           types.UID
	// worker, generated and labelled are all of the metadata that counts; labels and annotations are where they came from.
	worker, generated, labelled bool
	labels, annotations         map[string]string
	// raw is where the bytes of the inline config lie, spec all the rest, with lists of our own.
	raw  []byte
	spec mcfgv1.MachineConfigSpec

	digest   digest
	fragment *fragment
}

func sight(mc *mcfgv1.MachineConfig) sighting {
	s := sighting{name: mc.Name, version: mc.ResourceVersion, uid: mc.UID, worker: isWorker(mc), labelled: len(mc.Labels) > 0, labels: mc.Labels, annotations: mc.Annotations}
	_, s.generated = mc.Annotations[generatedBy]
	s.raw, s.spec = mc.Spec.Config.Raw, mc.Spec
	s.spec.KernelArguments, s.spec.Extensions = slices.Clone(s.spec.KernelArguments), slices.Clone(s.spec.Extensions)
	s.digest = digestOf(mc.Spec)
	return s
}

// same tells that an object is the one that was seen. It never takes one for another by chance: where the API server has
// not stamped it, nobody vouches for its bytes, and the answer is no.
func (s *sighting) same(mc *mcfgv1.MachineConfig) bool {
	now, was := &mc.Spec, &s.spec
	if mc.UID == "" || mc.ResourceVersion == "" || mc.ResourceVersion != s.version || mc.UID != s.uid || mc.Name != s.name ||
		now.Config.Object != nil || !sameBytes(now.Config.Raw, s.raw) || now.FIPS != was.FIPS ||
		now.KernelType != was.KernelType || now.OSImageURL != was.OSImageURL || now.BaseOSExtensionsContainerImage != was.BaseOSExtensionsContainerImage ||
		!slices.Equal(now.KernelArguments, was.KernelArguments) || !slices.Equal(now.Extensions, was.Extensions) {
		return false
	}
	if sameMap(mc.Labels, s.labels) && sameMap(mc.Annotations, s.annotations) {
		return true
	}
	_, generated := mc.Annotations[generatedBy]
	return (len(mc.Labels) > 0) == s.labelled && isWorker(mc) == s.worker && generated == s.generated
}

// sameMap tells that two maps are one; looking into two for each of a thousand objects would cost more than all the rest.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// sameBytes tells that two slices are one piece of memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 && (a == nil) == (b == nil) || len(a) > 0 && &a[0] == &b[0])
}

// sighted is what is remembered of a name, which mostly stands where it stood; nil if it is new.
func (m *memory) sighted(i int, name string) *sighting {
	if i < len(m.seen) && m.seen[i].name == name {
		return &m.seen[i]
	}
	if at, ok := m.place[name]; ok {
		return &m.seen[at]
	}
	return nil
}

// knows tells that the very same objects were given last time, in whatever order.
func (m *memory) knows(mcs []*mcfgv1.MachineConfig, d Defaults) bool {
	if len(mcs) == 0 || len(mcs) != len(m.seen) || len(mcs) != len(m.place) || d != m.defaults {
		return false
	}
	var met []bool // needed only where the order is another
	for i, mc := range mcs {
		if m.seen[i].name != mc.Name && met == nil {
			met = make([]bool, len(mcs))
			for j := range i {
				met[j] = true
			}
		}
		at := i
		if met != nil {
			var ok bool
			if at, ok = m.place[mc.Name]; !ok || met[at] {
				return false
			}
			met[at] = true
		}
		if !m.seen[at].same(mc) {
			return false
		}
	}
	return true
}
