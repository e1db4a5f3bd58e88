package render

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// digest identifies a spec's content.
type digest [sha256.Size]byte

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
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(raw)))
	h.Write(n[:])
	h.Write(raw)
	writeTexts(h, spec.KernelType, spec.OSImageURL, spec.BaseOSExtensionsContainerImage)
	writeTextList(h, spec.KernelArguments)
	writeTextList(h, spec.Extensions)
	return digest(h.Sum(nil))
}

// writeTexts adds texts with their lengths, so that no two lists of texts look alike.
func writeTexts(h hash.Hash, texts ...string) {
	var n [8]byte
	for _, s := range texts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
}

func writeTextList(h hash.Hash, list []string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(list)))
	h.Write(n[:])
	writeTexts(h, list...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
