package render

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

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
	Problems []error
}

// Read parses and checks one MachineConfig.
func Read(mc *mcfgv1.MachineConfig) Input {
	in := Input{Identity: Identify(mc)}
	in.Config, in.Problems = judge(mc.Spec)
	if in.Table != "" && len(in.Problems) == 0 {
		var err error
		if in.Nodes, err = machineconfig.ReadNodeTable(in.Table, in.Config); err != nil {
			in.Problems = append(in.Problems, err)
		}
	}
	return in
}
