package render

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// digest identifies the content of one or more MachineConfigs.
type digest [sha256.Size]byte

// digestOfAll returns the digest of everything on which a merge of MachineConfigs depends. The MachineConfigs are in
// the order of their names.
func digestOfAll(mcs []*mcfgv1.MachineConfig, d Defaults) digest {
	h := sha256.New()
	h.Write([]byte{boolByte(d.LargeFiles)})
	writeTexts(h, d.OSImageURL, d.ExtensionsImage, d.Unreviewed)
	for _, mc := range mcs {
		write(h, mc)
	}
	return digest(h.Sum(nil))
}

// digestOf returns the digest of everything in one MachineConfig on which a merge depends.
func digestOf(mc *mcfgv1.MachineConfig) digest {
	h := sha256.New()
	write(h, mc)
	return digest(h.Sum(nil))
}

// write adds the fields that Read reads to a hash.
func write(h hash.Hash, mc *mcfgv1.MachineConfig) {
	identity := Identify(mc)
	raw := mc.Spec.Config.Raw
	if raw == nil && mc.Spec.Config.Object != nil {
		var err error
		if raw, err = mc.Spec.Config.MarshalJSON(); err != nil {
			raw = []byte(err.Error()) // The text of the error is hashed, because parsing fails with the same text.
		}
	}
	h.Write([]byte{
		boolByte(identity.Worker), boolByte(identity.Generated), boolByte(identity.Labelled),
		boolByte(mc.Spec.FIPS), boolByte(raw != nil),
	})
	writeTexts(h, identity.Name, identity.Table, mc.Spec.KernelType, mc.Spec.OSImageURL,
		mc.Spec.BaseOSExtensionsContainerImage)
	writeList(h, mc.Spec.KernelArguments)
	writeList(h, mc.Spec.Extensions)
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
