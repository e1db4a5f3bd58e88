package render

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile"
)

// Renderer renders pools. For each pool, a Renderer caches the last answer and the parsed MachineConfigs. If no
// MachineConfig has changed, a call only computes digests. If one MachineConfig has changed, the Renderer parses only
// this MachineConfig again. Pools share parsed MachineConfigs, and those with the same contents what comes of the
// merge. The zero value of Renderer is ready for use, and safe for concurrent use.
type Renderer struct {
	// Store has which MachineConfigs are valid, from earlier processes; nil for none. Set it before the first use.
	Store transpile.Store

	mu    sync.Mutex
	pools map[string]answer
}

// answer is the last answer for a pool. answer is immutable.
type answer struct {
	key      digest
	rendered Rendered
	err      error
	inputs   map[digest]Input
}

// Merge returns the result of Merge. Callers share the result and must not change it.
func (r *Renderer) Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	mcs = slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return strings.Compare(a.Name, b.Name)
	})
	digests := make([]digest, len(mcs))
	for i, mc := range mcs {
		digests[i] = digestOf(mc)
	}
	key := digestOfAll(mcs, digests, d)
	last, others := r.recall(pool)
	if last.inputs != nil && last.key == key {
		return last.rendered, last.err
	}
	now := answer{key: key, inputs: make(map[digest]Input, len(mcs))}
	inputs := make([]Input, len(mcs))
	for i, mc := range mcs {
		of := digests[i]
		in, ok := find(of, last, others)
		if !ok {
			in = r.read(mc, of)
		}
		in.Identity, in.of = Identify(mc), of
		inputs[i], now.inputs[of] = in, in
	}
	now.rendered, now.err = mergeInputs(pool, inputs, d, last.rendered, others)
	r.remember(pool, now)
	return now.rendered, now.err
}

// read is Read, but does not judge again what an earlier process found valid. The parameter of is its digest.
func (r *Renderer) read(mc *mcfgv1.MachineConfig, of digest) Input {
	if r.Store == nil || machineconfig.PoolOf(mc) != "" {
		return Read(mc)
	}
	name := "valid MachineConfig " + hex.EncodeToString(of[:])
	if _, valid := r.Store.Get(name); valid {
		if c, err := decode(mc.Spec); err == nil {
			return Input{Identity: Identify(mc), Config: c}
		}
	}
	in := Read(mc)
	if len(in.Problems) == 0 {
		r.Store.Put(name, nil)
	}
	return in
}

// digestOfAll returns the digest of everything on which a merge of MachineConfigs depends. The MachineConfigs are in
// the order of their names, with the digestOf each.
func digestOfAll(mcs []*mcfgv1.MachineConfig, digests []digest, d Defaults) digest {
	h := sha256.New()
	writeDefaults(h, d)
	for i, mc := range mcs {
		identity := Identify(mc)
		h.Write([]byte{boolByte(identity.Worker), boolByte(identity.Generated), boolByte(identity.Labelled)})
		writeTexts(h, identity.Name, identity.Table)
		h.Write(digests[i][:])
	}
	return digest(h.Sum(nil))
}

// digestOf returns the digest of everything in one MachineConfig on which its Input depends, except the Identity: pools
// that include the same document have it under different names.
func digestOf(mc *mcfgv1.MachineConfig) digest {
	h := sha256.New()
	writeTexts(h, machineconfig.PoolOf(mc)) // as the table of single nodes is read for its pool
	writeSpec(h, &mc.Spec)
	return digest(h.Sum(nil))
}

// Forget removes the cached answer of a deleted pool.
func (r *Renderer) Forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// recall returns the last answer for a pool, and those for all other pools.
func (r *Renderer) recall(pool string) (last answer, others []answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.pools {
		if name != pool {
			others = append(others, other)
		}
	}
	return r.pools[pool], others
}

func (r *Renderer) remember(pool string, now answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[string]answer{}
	}
	r.pools[pool] = now
}

// find returns a parsed MachineConfig by its digest.
func find(of digest, last answer, others []answer) (in Input, ok bool) {
	if in, ok = last.inputs[of]; ok {
		return in, true
	}
	for _, a := range others {
		if in, ok = a.inputs[of]; ok {
			return in, true
		}
	}
	return in, false
}

// digestOfInputs returns the digest of everything on which a merge in this order depends, except the names of the pool
// and of the MachineConfigs.
func digestOfInputs(ordered []Input, d Defaults) digest {
	h := sha256.New()
	writeDefaults(h, d)
	for _, in := range ordered {
		h.Write(in.of[:])
		h.Write([]byte{boolByte(in.Generated)})
	}
	return digest(h.Sum(nil))
}

// fromSameInputs returns the config of another pool from these inputs, or the zero value. A config of which files went
// to the content store is none: how many go depends on the names in it.
func fromSameInputs(of digest, others []answer) Rendered {
	for _, a := range others {
		if a.rendered.inputs == of && len(a.rendered.Contents) == 0 {
			return a.rendered
		}
	}
	return Rendered{}
}

// digest identifies the content of one or more MachineConfigs.
type digest [sha256.Size]byte

func writeDefaults(h hash.Hash, d Defaults) {
	h.Write([]byte{boolByte(d.LargeFiles)})
	writeTexts(h, d.OSImageURL, d.ExtensionsImage, d.Unreviewed)
}

func writeSpec(h hash.Hash, spec *mcfgv1.MachineConfigSpec) {
	raw := spec.Config.Raw
	if raw == nil && spec.Config.Object != nil {
		var err error
		if raw, err = spec.Config.MarshalJSON(); err != nil {
			raw = []byte(err.Error()) // The text of the error is hashed, because parsing fails with the same text.
		}
	}
	h.Write([]byte{boolByte(spec.FIPS), boolByte(raw != nil)})
	writeTexts(h, spec.KernelType, spec.OSImageURL, spec.BaseOSExtensionsContainerImage)
	writeList(h, spec.KernelArguments)
	writeList(h, spec.Extensions)
	writeLength(h, len(raw))
	h.Write(raw)
}

// writeTexts adds texts with their lengths, so that different lists have different digests.
func writeTexts(h hash.Hash, texts ...string) {
	for _, s := range texts {
		writeLength(h, len(s))
		h.Write([]byte(s))
	}
}

func writeList(h hash.Hash, list []string) {
	writeLength(h, len(list))
	writeTexts(h, list...)
}

func writeLength(h hash.Hash, n int) {
	var text [8]byte
	binary.LittleEndian.PutUint64(text[:], uint64(n))
	h.Write(text[:])
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
