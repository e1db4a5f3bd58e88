package render

import (
	"cmp"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// RoleLabel is the label with the role of a MachineConfig.
const RoleLabel = "machineconfiguration.openshift.io/role"

// generatedBy marks a MachineConfig that a controller wrote, whose images the cluster's images override.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// Order returns the MachineConfigs in the order of merging, in which later MachineConfigs override earlier
// MachineConfigs. First come the MachineConfigs of the role worker, by name, then all other MachineConfigs, by name. So
// a custom pool's 00-infra overrides the inherited 99-worker.
func Order(mcs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	return slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return compare(isWorker(a), isWorker(b), a.Name, b.Name)
	})
}

func isWorker(mc *mcfgv1.MachineConfig) bool { return mc.Labels[RoleLabel] == "worker" }

// compare compares two MachineConfigs by their layer and their name.
func compare(aWorker, bWorker bool, a, b string) int {
	switch {
	case aWorker == bWorker:
		return cmp.Compare(a, b)
	case aWorker:
		return -1
	}
	return 1
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

// Identify reads the metadata of a MachineConfig.
func Identify(mc *mcfgv1.MachineConfig) Identity {
	_, generated := mc.Annotations[generatedBy]
	return Identity{
		Name: mc.Name, Worker: isWorker(mc), Generated: generated, Labelled: len(mc.Labels) > 0,
		Table: machineconfig.PoolOf(mc),
	}
}

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

func defaultKernel(kernelType string) bool { return kernelType == "" || kernelType == "default" }
