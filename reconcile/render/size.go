package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// What a cluster stores of one object, in bytes. The store (etcd) takes no request above MaxSize, and the API server no
// object whose annotations are larger than maxAnnotations.
const (
	// MaxSize is the most that a rendered config may have as an object, its metadata included.
	MaxSize = 1_572_864
	// WarnSize is where Rendered.Warnings begin to speak of it: each node, the server and the controller hold all of it.
	WarnSize = 512 << 10

	maxAnnotations = 256 << 10
	// metadata is about what an object has beside its spec: the commit, the owner, who wrote which field.
	metadata = 8 << 10
	// perInput is what each input adds beside its name: a digest in an annotation, quoted twice.
	perInput = 84
)

// guardSize refuses a spec that is too large to be stored, and warns of one that is large. Both name the largest entries
// and who set them. A limit of 0 is MaxSize.
func guardSize(r Rendered, doc *document, limit int) (warnings []string, err error) {
	spec, err := doc.size()
	if err != nil {
		return nil, fmt.Errorf("measuring the rendered config of pool %s: %w", r.Pool, err)
	}
	inputs := 0
	for _, name := range r.Inputs {
		inputs += perInput + len(name)
	}
	if inputs+metadata > maxAnnotations {
		return nil, fmt.Errorf("the rendered config of pool %s has %d MachineConfigs; the list of them would have %d bytes of the %d that a cluster stores in annotations: write more into each document", r.Pool, len(r.Inputs), inputs, maxAnnotations-metadata)
	}
	limit = cmp.Or(limit, MaxSize)
	switch size := spec + inputs + metadata; {
	case size > limit:
		return nil, fmt.Errorf("the rendered config of pool %s has %d bytes with its metadata, more than the %d that a cluster stores: make these smaller, or fetch them on the node: %s", r.Pool, size, limit, largest(r))
	case size > WarnSize:
		return []string{fmt.Sprintf("the rendered config of pool %s has %d bytes with its metadata, %d %% of the most that a cluster stores; the largest are %s", r.Pool, size, size*100/MaxSize, largest(r))}, nil
	}
	return nil, nil
}

// sized is an entry with the bytes of its contents, as they stand in the config.
type sized struct {
	entry
	bytes int
}

// largest names the five largest files and units, and who set them.
func largest(r Rendered) string {
	var top []sized
	keep := func(s sized) {
		if len(top) == 5 && compareSized(top[4], s) < 0 {
			return
		}
		at, _ := slices.BinarySearchFunc(top, s, compareSized)
		top = slices.Insert(top, at, s)
		top = top[:min(5, len(top))]
	}
	for _, f := range r.Config.Ignition.Storage.Files {
		if f.Contents.Source != nil {
			keep(sized{entry{policy.KindFile, f.Path}, len(*f.Contents.Source)})
		}
	}
	for _, u := range r.Config.Ignition.Systemd.Units {
		s := sized{entry{policy.KindUnit, u.Name}, 0}
		if u.Contents != nil {
			s.bytes = len(*u.Contents)
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				s.bytes += len(*d.Contents)
			}
		}
		keep(s)
	}
	parts := make([]string, len(top))
	for i, s := range top {
		parts[i] = fmt.Sprintf("%s %s (%d bytes, from MachineConfig %s)", s.kind, s.name, s.bytes, r.book.lastOf(s.entry))
	}
	return strings.Join(parts, ", ")
}

// compareSized puts the larger first.
func compareSized(a, b sized) int { return cmp.Or(b.bytes-a.bytes, cmp.Compare(a.name, b.name)) }
