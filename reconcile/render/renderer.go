package render

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Renderer renders pools and remembers, by digests of the content, what the last call for each pool parsed and
// returned: one changed MachineConfig of many costs one parse and the merge, and nothing changed costs the digests. It
// gives the same answers as Merge; losing it loses time only. The zero value is ready, and safe for concurrent use.
type Renderer struct {
	mu    sync.Mutex
	pools map[string]memory
}

// digest identifies a spec's content.
type digest [sha256.Size]byte

// memory is what one pool's last call left behind.
type memory struct {
	key      digest
	rendered Rendered
	err      error
	judged   map[digest]judgement
	pieces   pieces
}

// judgement is a spec, parsed and checked.
type judgement struct {
	config machineconfig.Config
	bad    []error
}

// Merge does what the function Merge does.
func (r *Renderer) Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	mcs = Order(mcs)
	digests := make([]digest, len(mcs))
	for i, mc := range mcs {
		digests[i] = digestOf(mc.Spec)
	}
	key := keyOf(mcs, digests, d)
	known, last := r.recall(pool)
	if last.judged != nil && last.key == key {
		return last.rendered, last.err
	}
	m := memory{key: key, judged: make(map[digest]judgement, len(mcs))}
	bad := selectionProblems(pool, mcs)
	var inputs []input
	for i, mc := range mcs {
		j, ok := known(digests[i])
		if !ok {
			j.config, j.bad = judge(mc.Spec)
		}
		m.judged[digests[i]] = j
		bad = append(bad, blame(mc.Name, j.bad))
		_, generated := mc.Annotations[generatedBy]
		inputs = append(inputs, input{mc.Name, generated, j.config})
	}
	if m.err = errors.Join(bad...); m.err == nil {
		m.render(pool, inputs, d, last)
	}
	r.remember(pool, m)
	return m.rendered, m.err
}

// render merges and names, with the last call's pieces of text.
func (m *memory) render(pool string, inputs []input, d Defaults, last memory) {
	rendered, err := merge(pool, inputs, d)
	if err != nil {
		m.err = err
		return
	}
	m.pieces = pieces{}
	text, err := m.pieces.hashed(rendered.Spec, last.pieces)
	if err != nil {
		m.err = fmt.Errorf("naming the rendered config of pool %s: %w", pool, err)
		return
	}
	rendered.Name = nameOf(pool, text)
	m.rendered = rendered
}

// selectionProblems are those of the list as a whole.
func selectionProblems(pool string, mcs []*mcfgv1.MachineConfig) (bad []error) {
	if len(mcs) == 0 {
		bad = append(bad, fmt.Errorf("pool %s selects no MachineConfigs: label some for it, or change its machineConfigSelector", pool))
	}
	seen := map[string]bool{}
	for _, mc := range mcs {
		if len(mc.Labels) == 0 {
			bad = append(bad, fmt.Errorf("MachineConfig %s: it has no labels, so that no pool can mean it: label it %s=<role>", mc.Name, RoleLabel))
		}
		if seen[mc.Name] {
			bad = append(bad, fmt.Errorf("MachineConfig %s: there are two of this name: rename one", mc.Name))
		}
		seen[mc.Name] = true
	}
	return bad
}

// recall returns what is remembered of a pool, and a look-up of specs that any pool has judged.
func (r *Renderer) recall(pool string) (known func(digest) (judgement, bool), last memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last = r.pools[pool]
	tables := []map[digest]judgement{last.judged}
	for name, m := range r.pools {
		if name != pool {
			tables = append(tables, m.judged)
		}
	}
	return func(d digest) (judgement, bool) {
		for _, t := range tables { // the tables are never written to once they are here
			if j, ok := t[d]; ok {
				return j, true
			}
		}
		return judgement{}, false
	}, last
}

func (r *Renderer) remember(pool string, m memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[string]memory{}
	}
	r.pools[pool] = m
}

// Forget drops what is remembered of a pool that is gone.
func (r *Renderer) Forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// digestOf is the digest of everything in a spec that parsing and checking look at.
func digestOf(spec mcfgv1.MachineConfigSpec) digest {
	h := sha256.New()
	raw := spec.Config.Raw
	if raw == nil && spec.Config.Object != nil {
		var err error
		if raw, err = spec.Config.MarshalJSON(); err != nil {
			raw = []byte(err.Error()) // Parse refuses it with the same words
		}
	}
	h.Write([]byte{boolByte(spec.FIPS), boolByte(raw != nil)})
	write(h, string(raw), spec.KernelType, spec.OSImageURL, spec.BaseOSExtensionsContainerImage)
	writeList(h, spec.KernelArguments)
	writeList(h, spec.Extensions)
	return digest(h.Sum(nil))
}

// keyOf is the digest of everything that a result depends on.
func keyOf(mcs []*mcfgv1.MachineConfig, digests []digest, d Defaults) digest {
	h := sha256.New()
	write(h, d.OSImageURL, d.ExtensionsImage)
	for i, mc := range mcs {
		_, generated := mc.Annotations[generatedBy]
		h.Write([]byte{boolByte(generated), boolByte(len(mc.Labels) > 0), byte(layer(mc))})
		write(h, mc.Name)
		h.Write(digests[i][:])
	}
	return digest(h.Sum(nil))
}

// write adds texts with their lengths, so that no two lists of texts look alike.
func write(h hash.Hash, texts ...string) {
	var n [8]byte
	for _, s := range texts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
}

func writeList(h hash.Hash, list []string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(list)))
	h.Write(n[:])
	write(h, list...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
