package machineconfig

import (
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// Standalone returns the config as an Ignition config, for a machine without a server and a daemon. The kernel
// arguments become kernel arguments of the Ignition config. leftOut lists the fields of the MachineConfig that Ignition
// does not have. The errors of Standalone are those of Flat.
func Standalone(c Config) (standalone Config, leftOut []string, err error) {
	flat, err := Flat(c) // The flat form counts, because a merged config could remove a kernel argument.
	if err != nil {
		return Config{}, nil, err
	}
	out := Config{HasIgnition: true, Ignition: flat.Ignition}
	out.Ignition.Ignition.Version = Version
	shouldExist := slices.Clone(flat.Ignition.KernelArguments.ShouldExist)
	for _, arg := range SplitKargs(c.KernelArguments) {
		a := ign.KernelArgument(arg) // The kernel takes the last of several, so the last of equal ones stays.
		shouldExist = append(slices.DeleteFunc(shouldExist, func(b ign.KernelArgument) bool { return a == b }), a)
	}
	out.Ignition.KernelArguments.ShouldExist = shouldExist
	for _, rest := range []struct {
		field string
		isSet bool
	}{
		{"osImageURL", c.OSImageURL != ""},
		{"baseOSExtensionsContainerImage", c.ExtensionsImage != ""},
		{"extensions", len(c.Extensions) > 0},
		{"kernelType", c.KernelType != "" && c.KernelType != "default"},
		{"fips", c.FIPS},
	} {
		if rest.isSet {
			leftOut = append(leftOut, rest.field)
		}
	}
	return out, leftOut, nil
}
