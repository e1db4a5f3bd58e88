package mcs

import (
	"errors"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Why a pool has nothing to serve.
var (
	// ErrUnknownPool says that there is no pool of that name.
	ErrUnknownPool = errors.New("there is no such pool")
	// ErrNothingRendered says that the pool exists and no config has been rendered for it yet.
	ErrNothingRendered = errors.New("nothing is rendered for this pool yet")
	// ErrNotSynced says that the pools are not known yet: the server has just started.
	ErrNotSynced = errors.New("the server has not read the pools yet")
)

// Serve names the rendered config that a new machine of a pool boots. Once one machine of the pool runs the newest
// config, new machines get that; before, they get the last one that the whole pool ran, so that a config which no
// machine has survived is not spread. A pool that has run none yet serves the newest. It is false while none is rendered.
func Serve(pool mcfgv1.MachineConfigPool) (name string, ok bool) {
	newest, proven := pool.Spec.Configuration.Name, pool.Status.Configuration.Name
	switch {
	case newest == "":
		return proven, proven != ""
	case pool.Status.UpdatedMachineCount > 0 || proven == "":
		return newest, true
	}
	return proven, true
}
