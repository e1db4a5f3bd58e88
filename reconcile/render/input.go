package render

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// Input is one MachineConfig in the form that a merge needs. Input depends only on the Identity and the spec, and is
// immutable.
type Input struct {
	Identity
	// Config is the parsed spec.
	Config machineconfig.Config
	// Nodes is the table of a MachineConfig that is about single nodes.
	Nodes machineconfig.NodeTable
	// Problems are the problems of the spec itself; empty if it is valid.
	Problems machineconfig.Problems

	// of is the digest of the contents; zero without a Renderer.
	of digest
}

// Identity has the metadata of a MachineConfig that a merge uses.
type Identity struct {
	// Name is the name of the MachineConfig.
	Name string
	// Worker reports whether the MachineConfig has the role worker, which other pools inherit.
	Worker bool
	// Generated reports whether a controller of the cluster wrote the MachineConfig. The cluster's images then
	// override its images.
	Generated bool
	// Labelled reports whether the MachineConfig has labels. Without labels, no pool can select it.
	Labelled bool
	// Table is the pool whose nodes the MachineConfig is about; empty for the config of a whole pool.
	Table string
}

// Read parses and checks one MachineConfig.
func Read(mc *mcfgv1.MachineConfig) Input {
	in := Input{Identity: Identify(mc)}
	in.Config, in.Problems = judge(mc.Spec)
	if in.Table != "" && len(in.Problems) == 0 {
		var err error
		if in.Nodes, err = machineconfig.ReadNodeTable(in.Table, in.Config); err != nil {
			in.Problems = append(in.Problems, machineconfig.ProblemsOf(err)...)
		}
	}
	return in
}

// Identify reads the metadata of a MachineConfig.
func Identify(mc *mcfgv1.MachineConfig) Identity {
	_, generated := mc.Annotations[generatedBy]
	return Identity{
		Name: mc.Name, Worker: isWorker(mc), Generated: generated, Labelled: len(mc.Labels) > 0,
		Table: machineconfig.PoolOf(mc),
	}
}

// judge parses and validates the spec of a MachineConfig.
func judge(spec mcfgv1.MachineConfigSpec) (machineconfig.Config, machineconfig.Problems) {
	var bad machineconfig.Problems
	spec, err := kinds.UpgradeSpec(spec)
	if err != nil {
		return machineconfig.Config{}, machineconfig.ProblemsOf(err)
	}
	c, err := machineconfig.Parse(spec)
	if err != nil {
		bad = append(bad, machineconfig.ProblemsOf(err)...)
	}
	bad = append(bad, machineconfig.Check(c)...)
	bad = append(bad, machineconfig.CheckSystem(spec.KernelType, spec.Extensions)...)
	return c, bad
}

// decode reads what judge has judged.
func decode(spec mcfgv1.MachineConfigSpec) (machineconfig.Config, error) {
	spec, err := kinds.UpgradeSpec(spec)
	if err != nil {
		return machineconfig.Config{}, err
	}
	return machineconfig.Decode(spec)
}

// RoleLabel is the label with the role of a MachineConfig.
const RoleLabel = "machineconfiguration.openshift.io/role"

// generatedBy marks a MachineConfig that a controller wrote, whose images the cluster's images override.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

func isWorker(mc *mcfgv1.MachineConfig) bool { return mc.Labels[RoleLabel] == "worker" }

// digest identifies the content of one or more MachineConfigs.
type digest [sha256.Size]byte

// digestOf returns the digest of everything in one MachineConfig on which its Input depends, except the Identity: pools
// that include the same document have it under different names.
func digestOf(mc *mcfgv1.MachineConfig) digest {
	h := sha256.New()
	writeTexts(h, machineconfig.PoolOf(mc)) // as the table of single nodes is read for its pool
	writeSpec(h, &mc.Spec)
	return digest(h.Sum(nil))
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
