package render

import (
	"reflect"
	"slices"
	"sync/atomic"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// fragment is all that can be said about one spec alone: it is worked out once for each content, and never changed.
// Pools that inherit from each other share it.
type fragment struct {
	// config as it was read, and what is wrong with it.
	config machineconfig.Config
	bad    []error
	// kargs one by one.
	kargs []string
	// keys of the items of each list.
	keys [listCount][]string
	// plain tells that there is nothing beside the lists.
	plain bool
	// own are the items as they stand in a rendered config if nobody else sets them.
	own lists

	// texts of own, nil until somebody renders it.
	texts atomic.Pointer[texts]
}

// read parses and checks a spec.
func read(spec mcfgv1.MachineConfigSpec) *fragment {
	f := &fragment{}
	f.config, f.bad = judge(spec)
	f.kargs = machineconfig.SplitKargs(f.config.KernelArguments)
	if len(f.bad) > 0 {
		return f
	}
	f.own = take(f.config.Ignition)
	f.own.files = attach(slices.Clone(f.own.files))
	f.keys = f.own.keys()
	rest := withoutLists(f.config.Ignition)
	rest.Ignition.Version = ""
	f.plain = reflect.DeepEqual(rest, ign.Config{})
	return f
}

// only returns the items, as they were read, whose keys are wanted.
func (f *fragment) only(want contests) (some lists) {
	choose(f, listFiles, filesOf, want, &some)
	choose(f, listDirectories, directoriesOf, want, &some)
	choose(f, listLinks, linksOf, want, &some)
	choose(f, listUnits, unitsOf, want, &some)
	choose(f, listUsers, usersOf, want, &some)
	choose(f, listGroups, groupsOf, want, &some)
	return some
}
